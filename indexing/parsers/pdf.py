"""PDF by kreuzberg: one PAGE node for each page, numbered from 1, paragraphs within it.

Tried on 4.10.4: its Markdown output guesses headings and lists from font sizes, invents them in two-column pages and
drops lines it takes for running heads even where they are headings. So its plain pages are taken as they come: nothing
is left out and no section is made up. Ligatures stay as they are in the text; the analyser folds them (NFKC) at index
and query time, so `fi` finds the ligature and spans stay exact. Runs only in a worker process.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from core.document import Node, NodeKind, ParsedDocument, ParseState, Span
from indexing.parsers.lines import NEWLINE, paragraphs_of
from indexing.parsers.outcome import quality_warnings, refused

if TYPE_CHECKING:
    from kreuzberg import ExtractionResult

VERSION = f"pdf/1 kreuzberg/{version('kreuzberg')}"
_MAGIC_WITHIN = 1024  # bytes; readers accept junk before the header


def parse_pdf(data: bytes) -> ParsedDocument:
    """The document of a PDF file. A page without text among others makes it PARTIAL, none at all NO_TEXT."""
    if b"%PDF-" not in data[:_MAGIC_WITHIN]:
        return refused(ParseState.CORRUPT, VERSION)
    import kreuzberg  # 130 MB of native code that only workers load

    try:
        result = kreuzberg.extract_bytes_sync(data, "application/pdf", _configuration())
    except kreuzberg.KreuzbergError as exc:
        encrypted = "password" in str(exc).lower()  # it has no error code of its own; held by a test
        return refused(ParseState.ENCRYPTED if encrypted else ParseState.CORRUPT, VERSION)
    return _document(result)


def _configuration() -> "kreuzberg.ExtractionConfig":  # type: ignore[name-defined]  # noqa: F821
    from kreuzberg import ContentFilterConfig, ExtractionConfig, PageConfig, PdfConfig

    return ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        output_format="plain",
        pages=PageConfig(extract_pages=True),
        pdf_options=PdfConfig(extract_images=False, extract_metadata=True),
        content_filter=ContentFilterConfig(
            include_headers=True, include_footers=True, strip_repeating_text=False, include_watermarks=True
        ),
    )


def _document(result: "ExtractionResult") -> ParsedDocument:
    pages = [NEWLINE.sub("\n", page["content"]) for page in result.pages or []]
    text, nodes = _joined(pages)
    silent = [str(number) for number, page in enumerate(pages, start=1) if not page.strip()]
    if not text.strip():
        return refused(ParseState.NO_TEXT, VERSION)
    title = result.metadata.get("title")
    return ParsedDocument(
        state=ParseState.PARTIAL if silent else ParseState.READY,
        text=text,
        nodes=nodes,
        title=title.strip() or None if isinstance(title, str) else None,
        language=None,
        parser_version=VERSION,
        warnings=((f"pages_without_text:{','.join(silent)}",) if silent else ()) + quality_warnings(text),
        metadata={"pages": str(len(pages))},
    )


def _joined(pages: list[str]) -> tuple[str, tuple[Node, ...]]:
    """Pages with a blank line between them; a page's span is its text, empty for one without."""
    nodes: list[Node] = []
    start = 0
    text = "\n\n".join(pages)
    for number, page in enumerate(pages, start=1):
        end = start + len(page)
        nodes.append(Node(NodeKind.PAGE, Span(start, end), number))
        nodes += [Node(NodeKind.PARAGRAPH, span) for span in paragraphs_of(text, start, end)]
        start = end + 2
    return text, tuple(nodes)
