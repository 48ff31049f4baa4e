"""What a principal may see and do: decided by OPA, carried as a typed filter over fragment attributes."""
