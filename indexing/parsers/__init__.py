"""Parsers: bytes of an accepted format become canonical text with a node tree and a state."""

from core.media_types import DOCX, HTML, MARKDOWN, PDF, PLAIN, media_type_of
from indexing.parsers.formats import parse
from indexing.parsers.outcome import ParseLimits
from indexing.parsers.pool import ParserPool, ParserUnavailable

__all__ = [
    "DOCX",
    "HTML",
    "MARKDOWN",
    "PDF",
    "PLAIN",
    "ParseLimits",
    "ParserPool",
    "ParserUnavailable",
    "media_type_of",
    "parse",
]
