"""Composition: settings, the development issuer, the command line and the roots that build each process."""
