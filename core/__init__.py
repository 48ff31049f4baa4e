"""The vocabulary of Muniment as frozen types: ids, access, attributes, documents, budgets, stage reports; no I/O."""
