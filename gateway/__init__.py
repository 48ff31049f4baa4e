"""The gRPC edge: authentication, interceptors, the error table, and one file per service under `services/`."""
