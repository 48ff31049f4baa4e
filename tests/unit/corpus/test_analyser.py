"""The analyser: the same words for the same text in any Unicode form, and identifiers kept whole."""

import string
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus.analyser import ANALYSER_VERSION, STOP_WORDS, Analyser, lexical_query, lexical_terms

analyse, identifiers = Analyser().analyse, Analyser().identifiers

GOLDEN = [
    # text, analysed, identifiers: a difference here is a new ANALYSER_VERSION, hence a new representation
    ("Connections were connected", "connect were connect", ""),
    ("CVE-2024-1234", "cve 2024 1234", "cve-2024-1234"),
    ("cve-2024-1234.", "cve 2024 1234", "cve-2024-1234"),
    ("ERR_CONN_RESET", "err conn reset", "err_conn_reset"),
    ("getUserById()", "getuserbyid get user id", "getuserbyid"),
    ("HTTPServer", "httpserver http server", "httpserver"),
    ("MS17-010", "ms17 010", "ms17-010"),
    ("C++, C# and C", "c", "c++ c#"),
    ("Objective-C++", "object", "objective-c++"),
    ("ASP.NET or .NET", "asp net net", "asp.net .net"),
    ("v1.2.3", "v1 2 3", "v1.2.3 v1"),
    ("Python 3.11", "python 3 11", "3.11"),
    (
        "/srv/app/getUserById.py",
        "srv app getuserbyid get user id py",
        "srv/app/getuserbyid.py getuserbyid.py getuserbyid",
    ),
    ("__init__", "init", "__init__"),
    ("std::vector", "std vector", "std::vector"),
    ("user@example.com", "user exampl com", "user@example.com example.com"),
    ("the patient's rights, e.g. U.S. and/or 5th", "patient right e g u s 5th", ""),
    ("mRNA of an iPhone in the 1990s", "mrna iphon i phone 1990s", "iphone"),
    ("well-known anti-inflammatory", "well known anti inflammatori", ""),
    ("", "", ""),
    (" \u200b\u00ad ", "", ""),
    ("?! -- ... ___", "", ""),
    ("to be or not to be", "", ""),
]


@pytest.mark.parametrize(("text", "words", "names"), GOLDEN)
def test_golden(text: str, words: str, names: str) -> None:
    assert analyse(text) == words
    assert identifiers(text) == names
    assert ANALYSER_VERSION == "words-1"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("re\u0301sume\u0301", "résumé"),
        ("ＡＢＣ１２", "abc12"),
        ("ﬁne", "fine"),
        ("soft\u00adhyphen", "softhyphen"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("CVE\u200b-2024-1234", "CVE-2024-1234"),
        ("doctor’s", "doctor's"),
        ("STRASSE", "strasse"),
    ],
)
def test_forms_of_one_text_are_one(one: str, other: str) -> None:
    assert analyse(one) == analyse(other)
    assert identifiers(one) == identifiers(other)


@given(st.text(max_size=60))
def test_any_normal_form_gives_the_same_terms(text: str) -> None:
    forms = {unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert len({analyse(form) for form in forms}) == 1
    assert len({identifiers(form) for form in forms}) == 1


@given(st.text(max_size=80))
def test_terms_hold_no_white_space_and_no_upper_ascii(text: str) -> None:
    for found in (analyse(text), identifiers(text)):
        assert found == " ".join(found.split())
        assert not set(found) & set(string.ascii_uppercase)


def test_stop_words_are_lucenes_thirty_three() -> None:
    assert len(STOP_WORDS) == 33


def test_other_languages_are_neither_stemmed_nor_stripped_of_english_stop_words() -> None:
    assert analyse("The Häuser in Berlin", "de") == "the häuser in berlin"
    assert analyse("running", "en-GB") == "run"
    assert analyse("running", "de") == "running"


def test_a_term_without_end_is_left_out() -> None:
    assert analyse("a" * 10_000 + " word") == "word"
    assert identifiers("x1" * 10_000 + " ab12") == "ab12"


def test_many_threads_stem_as_one() -> None:
    words = [
        f"{stem}{ending}" for stem in ("connect", "relat", "form", "nation") for ending in ("ing", "ed", "ions", "s")
    ]
    unseen = [f"{word}{n}ing" for word in words for n in "abcdefgh"]
    expected = [Analyser().analyse(word) for word in unseen]
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda _: [Analyser().analyse(word) for word in unseen], range(16)):
            assert found == expected


def test_identifiers_are_marked_in_the_field_and_weighted_in_the_query() -> None:
    assert lexical_terms("cve 2024 1234", "cve-2024-1234") == "cve 2024 1234 =cve-2024-1234"
    query = lexical_query("cve 2024 1234", "cve-2024-1234").split()
    assert query[:3] == ["cve", "2024", "1234"]
    assert query.count("=cve-2024-1234") == 4  # 1.5 for each of three parts
    assert lexical_query("", "") == ""


def test_a_segment_of_another_identifier_is_not_asked_beside_it() -> None:
    assert "=v1" in lexical_terms("v1 2 3", "v1.2.3 v1").split()
    assert "=v1" not in lexical_query("v1 2 3", "v1.2.3 v1").split()
    assert "=v1" in lexical_query("v1", "v1").split()


def test_humps_weigh_as_parts() -> None:
    query = lexical_query(analyse("getUserById"), identifiers("getUserById"))
    assert query.split().count("=getuserbyid") > lexical_query("p53", "p53").split().count("=p53") == 1


def test_a_long_question_full_of_identifiers_costs_time_in_proportion_to_its_length() -> None:
    text = " ".join(f"word{n}" for n in range(4_000))  # 30 kB: the square of its names would take half a minute
    began = time.process_time()
    query = lexical_query(analyse(text), identifiers(text)).split()
    assert time.process_time() - began < 3
    assert "=word77" in query


_PIECES = st.sampled_from(
    [text for text, _, _ in GOLDEN]
    + [
        "dying",
        "aged",
        "Dies",
        "agreed",
        "only",
        "was",
        "résumé",
        "ΑΣ.txt",
        "a/b/getUserById.py",
        "ＡＢＣ",
        "of",
        "ied",
    ]
)
_MIXED = st.lists(_PIECES | st.text("aeiouydingsCVE2_-. ", max_size=9), max_size=8).map(" ".join)


@given(_MIXED, _MIXED)
def test_found_is_what_analysing_the_whole_text_would_find(text: str, query: str) -> None:
    wanted = set(analyse(query).split()) | set(identifiers(query).split())
    assert Analyser().found(text, wanted) == wanted & (set(analyse(text).split()) | set(identifiers(text).split()))
