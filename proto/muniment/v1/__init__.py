"""The contract `muniment.v1`, generated from the protos beside it."""
