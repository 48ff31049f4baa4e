"""Muniment's client: evidence and checked answers from a Muniment gateway."""
