"""Reads which module versions a Go binary was built from, without Go.

The format is that of the standard library's ``debug/buildinfo``: a 16-byte aligned header beginning with a magic text;
byte 15 holds flags, of which 2 says that two strings follow at offset 32, each after its length as a varint: the Go
version, and the module information between two 16-byte markers.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"\xff Go buildinf:"
_ALIGNMENT = 16
_HEADER_BYTES = 32
_FLAGS_OFFSET = 15
_INLINE_STRINGS = 2
_MARKER_BYTES = 16


def module_versions(binary: Path) -> dict[str, str]:
    """Versions by module path without the leading ``v``, the main module included; empty when there are none.

    Local builds carry texts like ``(devel)`` in place of a version.
    """
    if binary.stat().st_size == 0:
        return {}  # nothing to map
    with binary.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
        try:
            information = _module_information(image)
        except IndexError:
            return {}  # cut short
    return {
        fields[1]: fields[2].removeprefix("v")
        for line in information.split("\n")
        if len(fields := line.split("\t")) >= 3 and fields[0] in ("mod", "dep")
    }


def _module_information(image: mmap.mmap) -> str:
    for start in _headers(image):
        if image[start + _FLAGS_OFFSET] & _INLINE_STRINGS:
            _, position = _string(image, start + _HEADER_BYTES)
            information, _ = _string(image, position)
            return information[_MARKER_BYTES:-_MARKER_BYTES].decode(errors="replace")
    return ""


def _headers(image: mmap.mmap) -> Iterator[int]:
    start = image.find(_MAGIC)
    while start >= 0:
        if start % _ALIGNMENT == 0 and start + _HEADER_BYTES < len(image):
            yield start
        start = image.find(_MAGIC, start + 1)


def _string(image: mmap.mmap, position: int) -> tuple[bytes, int]:
    """The string at ``position`` and the position behind it."""
    length = shift = 0
    while True:
        byte = image[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return image[position : position + length], position + length
