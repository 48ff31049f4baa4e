"""Plain text: paragraphs between blank lines."""

from core.document import Node, NodeKind, ParsedDocument, ParseState
from indexing.parsers.lines import paragraphs_of

VERSION = "text/1"


def parse_text(text: str) -> ParsedDocument:
    """The document of a decoded plain text; its canonical text is `text` itself."""
    nodes = tuple(Node(NodeKind.PARAGRAPH, span) for span in paragraphs_of(text))
    return ParsedDocument(
        state=ParseState.READY if nodes else ParseState.EMPTY,
        text=text,
        nodes=nodes,
        title=None,
        language=None,
        parser_version=VERSION,
    )
