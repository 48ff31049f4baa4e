"""Words and identifiers in every Store: exact before near miss, one text in any form (R1, R3, R5)."""

import pytest

from corpus.store import (
    StoredFragment,
)
from tests.contract.shelf import Shelf

IDENTIFIERS = [
    *("CVE-2024-1234", "CVE-2024-12345", "CVE-2024-1235", "ERR_CONN_RESET", "ERR_CONN_REFUSED", "getUserById"),
    *("getUserByName", "MS17-010", "MS17-011", "C++", "C#", "v1.2.3", "v1.2.4", "/usr/lib/python3/site.py"),
    *(
        "/usr/lib/python3/sites.py",
        "E0308",
        "E0309",
        "std::vector",
        "std::vectors",
        "ops@example.com",
        "api.listOrdersOf",
        "ns/dropTableNow/v2",
    ),
]
FILLER = "the service restarted after the network was down and people waited for the report about it to be sent out "


async def test_an_identifier_finds_its_own_fragment_before_any_near_miss(shelf: Shelf) -> None:
    """Near misses are short and repeat themselves; the exact one is said once, in a long fragment of many names."""
    exact: dict[str, StoredFragment] = {}
    for name in IDENTIFIERS:
        exact[name] = await shelf.put(FILLER * 8 + name + f" noise_{len(exact)}_a noise_{len(exact)}_b " + FILLER * 8)
        if name not in ("C++", "C#"):  # their near misses are each other, and C
            await shelf.put(f"{name}x {name}x {name}x {name}0 {name}0 {name}9")
    await shelf.put("C C C")
    for name in IDENTIFIERS:
        for question in (name, f"what happened with {name}?", name.lower()):
            if question == name.lower() and name.isalnum() and name.lower() != name and not any(map(str.isdigit, name)):
                continue  # camel case is lost: only the word is left, which the next assertion covers
            hits = await shelf.lexical(question)
            assert hits[0].object_id == exact[name].object_id, question
        assert exact[name].object_id in {hit.object_id for hit in await shelf.lexical(name.lower())}


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("CVE-2024-1234", "1234"),
        ("ERR_CONN_RESET", "conn reset"),
        ("getUserById", "user"),
        ("getUserById", "getuserbyid"),
        ("MS17-010", "ms17"),
        ("/usr/lib/python3/site.py", "site.py"),
        ("re\u0301sume\u0301", "r\u00e9sum\u00e9"),
        ("r\u00e9sum\u00e9", "re\u0301sume\u0301"),
        ("ＡＢＣ", "abc"),
        ("pass\u00adword", "password"),
        ("zero\u200bwidth", "zerowidth"),
        ("connections", "connected"),
    ],
)
async def test_pieces_forms_and_inflections_are_found(shelf: Shelf, text: str, question: str) -> None:
    made = await shelf.put(text)
    await shelf.put("something else")
    assert [hit.object_id for hit in await shelf.lexical(question)] == [made.object_id]


@pytest.mark.parametrize("question", ["", "  ", "\u200b\u200b", "?!", "the", "to be or not to be"])
async def test_a_question_without_words_gives_no_lexical_hits_and_no_fault(shelf: Shelf, question: str) -> None:
    await shelf.put("to be or not to be, the question")
    assert await shelf.lexical(question) == []


async def test_a_question_of_thirty_kilobytes_is_answered(shelf: Shelf) -> None:
    made = await shelf.put("needle")
    question = " ".join(f"word{n}" for n in range(4_000)) + " needle"
    assert [hit.object_id for hit in await shelf.lexical(question)] == [made.object_id]
