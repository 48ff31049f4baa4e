"""Bytes to canonical text: decoded once, one leading byte order mark dropped, nothing else changed.

An encoding is never guessed: cp1252 read as Latin-1 or UTF-8 read as cp1252 makes text that is wrong without a trace.
"""

import codecs
import re

_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.\-]+)|<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9_:.\-]+)""",
    re.IGNORECASE,
)
_DECLARATION_WITHIN = 1024  # bytes; the HTML standard's prescan
# What the WHATWG encoding standard reads these labels as; a declared UTF-16 that reads as ASCII can only be UTF-8.
_WHATWG = {"iso8859-1": "cp1252", "ascii": "cp1252", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8"}


class BadEncoding(Exception):
    """The bytes are not what they claim to be; the message names the encoding tried."""


def decode(data: bytes) -> tuple[str, str]:
    """(text, encoding) of UTF-8 with or without mark, or UTF-16 with one; else BadEncoding."""
    marked = _marked(data)
    return marked if marked is not None else (_strict(data, "utf-8"), "utf-8")


def decode_html(data: bytes) -> tuple[str, str]:
    """(text, encoding) by byte order mark, else by what the document declares, else UTF-8; else BadEncoding."""
    marked = _marked(data)
    if marked is not None:
        return marked
    encoding = "utf-8"
    declared = _DECLARED.search(data[:_DECLARATION_WITHIN])
    if declared is not None:
        label = (declared[1] or declared[2]).decode("ascii")
        try:
            encoding = codecs.lookup(label).name
        except LookupError as exc:
            raise BadEncoding("unknown encoding declared") from exc
        encoding = _WHATWG.get(encoding, encoding)
    return _strict(data, encoding), encoding


def _marked(data: bytes) -> tuple[str, str] | None:
    if data.startswith(codecs.BOM_UTF8):
        return _strict(data[3:], "utf-8"), "utf-8"
    if data.startswith(_UTF32):
        raise BadEncoding("utf-32")
    if data.startswith(_UTF16):
        encoding = "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
        return _strict(data[2:], encoding), encoding
    return None


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError) as exc:  # LookupError: a codec that is not one of text, such as `hex`
        raise BadEncoding(encoding) from exc
