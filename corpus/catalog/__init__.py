"""The catalog: tables, one module per aggregate, commands as functions that take a transaction."""
