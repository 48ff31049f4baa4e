"""Tokens say nothing: not even how many digits a number has."""

import pytest

from core.errors import InvalidValue
from core.ids import OPEN_SEQ, Incarnation, Seq, TenantId
from corpus.errors import SnapshotUnavailable
from gateway.opaque import OpaqueTokens

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
NUMBERS = (0, 9, 10, 123_456, int(OPEN_SEQ))


@pytest.fixture
def tokens() -> OpaqueTokens:
    return OpaqueTokens(bytes(32), Incarnation("one"))


def test_a_small_number_has_a_token_as_long_as_a_large_one(tokens: OpaqueTokens) -> None:
    assert len({len(tokens.snapshot(ACME, Seq(number))) for number in NUMBERS}) == 1
    assert len({len(tokens.page(ACME, "list", [number, "last"])) for number in NUMBERS}) == 1


def test_what_is_sealed_is_opened_again(tokens: OpaqueTokens) -> None:
    for number in NUMBERS:
        assert tokens.seq(ACME, tokens.snapshot(ACME, Seq(number))) == number
        place = tokens.place(ACME, "list", tokens.page(ACME, "list", [number, "last"]))
        assert place is not None
        assert (int(place[0]), place[1]) == (number, "last")


def test_tokens_of_others_open_nothing(tokens: OpaqueTokens) -> None:
    snapshot, page = tokens.snapshot(ACME, Seq(7)), tokens.page(ACME, "list", [7])
    restored = OpaqueTokens(bytes(32), Incarnation("two"))
    for opener, tenant_id, token in ((tokens, GLOBEX, snapshot), (restored, ACME, snapshot), (tokens, ACME, page)):
        with pytest.raises(SnapshotUnavailable):
            opener.seq(tenant_id, token)
    for token in (snapshot, page[:-2], "é", "x" * 100_000):
        with pytest.raises(InvalidValue):
            tokens.place(ACME, "list", token)
    with pytest.raises(InvalidValue):
        tokens.place(ACME, "another list", page)
