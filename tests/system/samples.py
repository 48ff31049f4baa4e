"""A document in each format, made by hand; the encrypted PDF by the PDF standard's own recipe."""

import hashlib

from tests.unit.indexing.samples import docx_of, paragraph, pdf_of, run

MARKDOWN = "# Heron\r\n\r\nThe heron stands in the reeds \u2014 na\u00efvely.\r\n\r\n- first\r\n- second\r\n"
HTML = (
    "<!doctype html><html><head><title>Otter</title><style>p{}</style></head><body><h1>Otter</h1>"
    "<p>The otter swims in the <b>river</b> &amp; sleeps.</p><script>steal()</script></body></html>"
)
TEXT = "\ufeffThe badger digs at night.\n\nIt sleeps by day: \U0001f9a1 e\u0301.\n"
PDF = pdf_of("The falcon nests on the tower.", "The falcon hunts in the morning.")
DOCX = docx_of(paragraph(run("Beaver"), "Heading1") + paragraph(run("The beaver builds a dam across the stream.")))

_PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")


def encrypted_pdf(password: bytes = b"secret") -> bytes:
    """Standard security handler, revision 2 (40-bit RC4): opens with the password alone."""
    identity, permissions = b"0123456789abcdef", -44
    padded = (password + _PADDING)[:32]
    owner = _rc4(hashlib.md5(padded).digest()[:5], padded)  # noqa: S324 - the format's own
    seed = padded + owner + permissions.to_bytes(4, "little", signed=True) + identity
    key = hashlib.md5(seed).digest()[:5]  # noqa: S324
    user = _rc4(key, _PADDING)
    page_key = hashlib.md5(key + (5).to_bytes(3, "little") + b"\0\0").digest()[:10]  # noqa: S324
    stream = _rc4(page_key, b"BT /F1 12 Tf 72 50 Td (The hidden falcon.) Tj ET")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 5 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P %d >>"
        % (owner.hex().encode(), user.hex().encode(), permissions),
    ]
    return _file(objects, b"/Encrypt 6 0 R /ID [<%s> <%s>]" % (identity.hex().encode(), identity.hex().encode()))


def _file(objects: list[bytes], trailer: bytes) -> bytes:
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(out)


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    out = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
