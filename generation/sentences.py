"""Sentences of a text as exact spans. Rules, for prose and for Markdown's blocks; linear in the text's length."""

import re
from collections.abc import Iterator

from core.document import Span

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
# What begins a block of its own: heading, list item, table row, quote, fence.
_BLOCK_START = re.compile(r"[ \t]*(?:#{1,6}[ \t]|[-*+•][ \t]|\d{1,9}[.)][ \t]|\||>|```|~~~)")
_LIST_MARK = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]")
_END = re.compile(r"(?:(?<![.!?…])[.!?…]+[\"'”’»)\]*_]*(?=\s)|[。！？]+[」』”’）]*)")
_WORD_BEFORE = re.compile(r"[^\W\d_](?:\.?[^\W\d_])*\Z")
_LONGEST_ABBREVIATION = 12
_DENIAL = re.compile(
    r"\b(?:not|never|no|none|nor|neither|cannot|avoid|without|except|unless|forbidden|prohibited|\w+n['’]ts?|don['’]?ts?)\b",
    re.IGNORECASE,
)
_ABBREVIATION = re.compile(
    r"dr|mr|mrs|ms|prof|sr|jr|st|vs|etc|e\.g|i\.e|eg|ie|cf|al|approx|est|dept|inc|ltd|co|corp|u\.s|u\.k|a\.m|p\.m|ph\.d"
)
_BEFORE_NUMBERS = re.compile(r"nos?|figs?|eq|vol|pp?|ch|sec|art|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec")


def sentences(text: str) -> tuple[Span, ...]:
    """Non-empty spans in order, without outer white space and without list marks; they do not overlap.

    A sentence ends at `.`, `!`, `?` or `…` before white space, unless the next word begins in lower case or, at a
    single full stop, the word before is a known abbreviation or an initial; at an ideographic full stop; and with its
    block: blank lines, headings, list items, table rows, quotes and fences part blocks. A single line break parts
    nothing: lines are wrapped.
    """
    return tuple(span for block in _blocks(text) for span in _split(text, block))


def is_heading(text: str) -> bool:
    """Whether a sentence is a Markdown heading line, which asserts nothing."""
    return _HEADING.match(text) is not None


def denies(text: str) -> bool:
    """Whether the text holds a word of denial: "Never do this:" turns what it leads to into its opposite."""
    return _DENIAL.search(text) is not None


def lead_in(text: str, at: int) -> str | None:
    """The line that leads to the list in whose item `at` lies; None when `at` lies in no list item.

    It is the item above that ends in a colon and is less indented, or else the line above the whole list, which may be
    a heading. Empty when the text begins with the list: what led to it is not there.
    """
    above = [line.group() for line in _LINE.finditer(text) if line.start() <= at and line.group()]
    depth: int | None = None  # of the item that `at` lies in
    while above:
        line = above.pop()
        indent = len(line) - len(line.lstrip())
        if _LIST_MARK.match(line):
            if depth is not None and indent < depth and line.rstrip().endswith(":"):
                return line
            depth = indent if depth is None else depth
        elif line.strip() and not indent:
            return None if depth is None else line
    return None if depth is None else ""


def _blocks(text: str) -> Iterator[Span]:
    start: int | None = None
    heading = False
    for line in _LINE.finditer(text):
        if line.start() == line.end():
            break
        blank = not line.group().strip()
        if start is not None and (blank or heading or _BLOCK_START.match(line.group())):
            yield Span(start, line.start())
            start = None
        if not blank and start is None:
            mark = _LIST_MARK.match(line.group())
            start = line.start() + (mark.end() if mark else 0)
            heading = is_heading(line.group())
    if start is not None:
        yield Span(start, len(text))


def _split(text: str, block: Span) -> Iterator[Span]:
    start = block.start
    for end in _END.finditer(text, block.start, block.end):
        if _ends_here(text, start, end, block.end):
            yield from _trimmed(text, start, end.end())
            start = end.end()
    yield from _trimmed(text, start, block.end)


def _ends_here(text: str, start: int, end: re.Match[str], limit: int) -> bool:
    marks = end.group()
    if marks[0] in "。！？":
        return True
    following = text[end.end() : min(limit, end.end() + 64)].lstrip()[:1]
    if following.islower():
        return False
    if marks != ".":
        return True
    word = _WORD_BEFORE.search(text[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()])
    if word is None:
        return True
    initial = len(word.group()) == 1 and word.group().isupper()
    lower = word.group().lower()
    return not (initial or _ABBREVIATION.fullmatch(lower) or (following.isdigit() and _BEFORE_NUMBERS.fullmatch(lower)))


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield Span(start, end)
