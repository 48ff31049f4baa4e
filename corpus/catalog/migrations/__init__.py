"""Migrations of the catalog, run by `corpus.catalog.database.migrate`."""
