"""Small files made by hand, each with one trouble."""

import io
import zipfile

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_MORE = (
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
    ' xmlns:v="urn:schemas-microsoft-com:vml"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_PART = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(inner: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}{inner}</w:p>"


def table(*rows: tuple[str, ...]) -> str:
    cells = ("".join(f"<w:tc>{cell}</w:tc>" for cell in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def text_box(text: str, *, older_form: bool = True) -> str:
    """As Word writes it: a drawing, and for older readers VML with the same text."""
    box = f"<wps:wsp><wps:txbx><w:txbxContent>{paragraph(run(text))}</w:txbxContent></wps:txbx></wps:wsp>"
    choice = f'<mc:Choice Requires="wps"><w:drawing>{box}</w:drawing></mc:Choice>'
    vml = f"<v:shape><v:textbox><w:txbxContent>{paragraph(run(text))}</w:txbxContent></v:textbox></v:shape>"
    fallback = f"<mc:Fallback><w:pict>{vml}</w:pict></mc:Fallback>" if older_form else ""
    return f"<w:r><mc:AlternateContent>{choice}{fallback}</mc:AlternateContent></w:r>"


def docx_of(body: str, footnotes: str = "") -> bytes:
    """A DOCX file around the XML of its body."""
    xml = '<?xml version="1.0"?>'
    types = (
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{_PART}.document.main+xml"/>'
        f'<Override PartName="/word/footnotes.xml" ContentType="{_PART}.footnotes+xml"/>'
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">{types}</Types>',
        "_rels/.rels": _relation("rId1", "officeDocument", "word/document.xml"),
        "word/_rels/document.xml.rels": _relation("rId2", "footnotes", "footnotes.xml"),
        "word/footnotes.xml": f"<w:footnotes {_W}>{footnotes}</w:footnotes>",
        "word/document.xml": f"<w:document {_W} {_MORE}><w:body>{body}</w:body></w:document>",
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, xml + part)
    return data.getvalue()


def _relation(name: str, kind: str, target: str) -> str:
    inner = f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{inner}</Relationships>'


def pdf_of(*pages: str | None, differences: str = "") -> bytes:
    """A PDF with one line of Helvetica a page; None is a page with a picture alone, "" a blank one.

    `differences` renames codes, such as `1 /fi`, which a page then shows as `\\001`.
    """
    encoding = f"/Encoding << /Type /Encoding /Differences [{differences}] >>" if differences else ""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{4 + 2 * i} 0 R' for i in range(len(pages)))}] >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {encoding} >>",
    ]
    for number, page in enumerate(pages):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
            f" /Contents {5 + 2 * number} 0 R >>"
        )
        picture = "q 200 0 0 200 100 400 cm BI /W 2 /H 2 /CS /G /BPC 8 /F /AHx ID 00FF00FF> EI Q"
        shown = picture if page is None else f"BT /F1 12 Tf 72 700 Td ({page}) Tj ET" if page else ""
        objects.append(f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream")
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    start = len(out)
    table_of = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table_of}".encode()
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)
