"""What parsers share: limits, failures and the measure of broken text."""

import re
from dataclasses import dataclass

from core.document import ParsedDocument, ParseState

# NUL, U+FFFD, private use and control characters: what a font without a Unicode map leaves behind.
_BROKEN = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\ufffe\uffff\U000f0000-\U0010fffd]")
BROKEN_SHARE = 0.01  # above it a reader notices; clean PDFs of the test set have 0


@dataclass(frozen=True)
class ParseLimits:
    """What a document may measure before it is refused as TOO_LARGE: bytes as sent, code points of canonical text."""

    max_bytes: int = 32 * 1024 * 1024
    max_code_points: int = 20_000_000


def refused(state: ParseState, parser_version: str, *warnings: str) -> ParsedDocument:
    """A document without text: `state` says why."""
    return ParsedDocument(state, "", (), None, None, parser_version, warnings)


def quality_warnings(text: str) -> tuple[str, ...]:
    """("text_quality",) when more than BROKEN_SHARE of the characters that are not white space are broken."""
    visible = sum(len(word) for word in text.split())
    broken = len(_BROKEN.findall(text))
    return ("text_quality",) if broken > BROKEN_SHARE * visible else ()
