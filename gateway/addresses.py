"""Rules on addresses that settings and the edge share; imports nothing heavy, for the command line's sake."""

import ipaddress
from urllib.parse import urlsplit


def checked_key_url(url: str) -> str:
    """The URL, when keys may be fetched from it: https, or http on loopback; ValueError otherwise."""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("http", "https"):
        raise ValueError("must be an http or https URL")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("must be https: whoever can change keys on the way can mint tokens")
    return url


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, judged by its text alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
