"""The record (catalog and blobs) and its projection (the store): what is true, and what can be searched."""
