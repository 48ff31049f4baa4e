"""Lines, white space and trimmed spans of a canonical text.

A line ends at LF, CRLF or CR and nowhere else: `str.splitlines` also cuts at form feed, NEL and U+2028, which
CommonMark does not, so every offset after one would be wrong.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.document import Span

NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Line:
    """A line of a text: `start` to `end` without its newline, `next` where the following line starts."""

    start: int
    end: int
    next: int


def lines_of(text: str) -> list[Line]:
    """All lines of `text`; a text that ends in a newline has no empty last line."""
    lines = []
    start = 0
    for newline in NEWLINE.finditer(text):
        lines.append(Line(start, newline.start(), newline.end()))
        start = newline.end()
    if start < len(text):
        lines.append(Line(start, len(text), len(text)))
    return lines


def trimmed(text: str, start: int, end: int) -> Span | None:
    """`[start, end)` without outer white space; None when nothing is left."""
    cut = text[start:end]
    left = len(cut) - len(cut.lstrip())
    if left == len(cut):
        return None
    return Span(start + left, end - (len(cut) - len(cut.rstrip())))


def paragraphs_of(text: str, start: int = 0, end: int | None = None) -> Iterator[Span]:
    """Spans of the runs of lines that are not blank, within `[start, end)`, trimmed."""
    stop = len(text) if end is None else end
    began = last = start
    for line in lines_of(text[start:stop]):
        if text[start + line.start : start + line.end].strip():
            last = start + line.end
            continue
        run = trimmed(text, began, last) if began < last else None
        if run is not None:
            yield run
        began = last = start + line.next
    run = trimmed(text, began, last) if began < last else None
    if run is not None:
        yield run


def collapsed(text: str) -> str:
    """`text` on one line: runs of white space become one space."""
    return " ".join(text.split())
