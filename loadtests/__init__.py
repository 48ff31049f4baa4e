"""Ratios and bounds of a running system, measured against each other within one run, through the client."""
