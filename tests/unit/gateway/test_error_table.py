"""Every fault of every room that serves becomes a status of ours, with details within bounds."""

import importlib
import pkgutil
from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from muniment.v1 import common_pb2

import corpus.errors
import policy.errors
from core.budget import BudgetExhausted
from core.errors import InvalidValue, MunimentFault
from gateway.errors import INTERNAL, MAX_DETAILS_BYTES, TABLE, Unauthenticated, refuse, row_of

ROOMS = ("core", "policy", "corpus", "retrieval", "generation", "gateway")


def faults(root: type[MunimentFault] = MunimentFault) -> Iterator[type[MunimentFault]]:
    for cls in root.__subclasses__():
        yield cls
        yield from faults(cls)


def import_rooms() -> None:
    for room in ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            if ".migrations" not in module.name:  # scripts that only Alembic can load
                importlib.import_module(module.name)


def is_root(cls: type[MunimentFault]) -> bool:
    """A room's root: raised by nobody, so it has no row that would hide an unmapped child."""
    return cls.__base__ is MunimentFault and bool(cls.__subclasses__())


def test_every_fault_that_a_room_raises_has_a_row() -> None:
    import_rooms()
    served = [cls for cls in faults() if cls.__module__.split(".")[0] in ROOMS]
    assert len(served) > 30
    mapped = [cls for cls in served if any(ancestor in TABLE for ancestor in cls.__mro__)]
    assert [cls for cls in served if cls not in mapped and not is_root(cls)] == []
    assert [cls for cls in served if is_root(cls) and cls in TABLE] == []


def test_no_reason_of_the_contract_is_made_up() -> None:
    for row in (*TABLE.values(), INTERNAL):
        assert common_pb2.ErrorReason.Name(row.reason) != "ERROR_REASON_UNSPECIFIED"


@pytest.mark.parametrize("cls", TABLE)
def test_what_heals_by_itself_is_unavailable_and_what_does_not_has_no_retry(cls: type[Exception]) -> None:
    row = TABLE[cls]
    if row.retry_after_s is not None:
        assert row.code == grpc.StatusCode.UNAVAILABLE
    assert row.text.endswith(".")
    assert len(row.text) < 100


def parts(raw: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    for detail in status_pb2.Status.FromString(raw).details:
        for kind in (error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest):
            message = kind()
            if detail.Unpack(message):
                found[kind.__name__] = message
    return found


def test_details_say_reason_request_and_field() -> None:
    refusal = refuse(InvalidValue("access.owner", "must not be empty"), "r-1")
    found = parts(refusal.details)
    info, bad = found["ErrorInfo"], found["BadRequest"]
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert isinstance(bad, error_details_pb2.BadRequest)
    assert (info.domain, info.reason, dict(info.metadata)) == ("muniment", "INVALID_REQUEST", {"request_id": "r-1"})
    assert [(each.field, each.description) for each in bad.field_violations] == [("access.owner", "must not be empty")]
    assert "RetryInfo" not in found


def test_a_retry_is_told_where_it_helps() -> None:
    retry = parts(refuse(policy.errors.PolicyUnavailable("opa at 10.0.0.7 refused"), "r").details)["RetryInfo"]
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay.seconds == 1


@pytest.mark.parametrize("length", [1, 300, 20_000])
def test_details_are_bounded_whatever_the_value(length: int) -> None:
    refusal = refuse(InvalidValue("長" * length, "長" * length), "r" * 36)
    assert len(refusal.details) <= MAX_DETAILS_BYTES
    assert status_pb2.Status.FromString(refusal.details).details


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("/srv/secret"),
        KeyError("secret"),
        corpus.errors.RecordDamaged("blob secret"),
        corpus.errors.NotFound("secret"),
        Unauthenticated("secret"),
        policy.errors.UntranslatableResidual("secret.rego", 3, "secret", "secret"),
        BudgetExhausted("secret"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_the_text_of_a_fault_never_leaves(fault: Exception) -> None:
    refusal = refuse(fault, "r-1")
    assert "secret" not in refusal.text
    assert b"secret" not in refusal.details


def test_what_is_not_in_the_table_is_internal_with_the_request() -> None:
    assert row_of(ZeroDivisionError) is INTERNAL
    refusal = refuse(ZeroDivisionError(), "r-1")
    assert refusal.text == "Internal error. Request r-1."
    assert refusal.reason == "INTERNAL"


def test_hidden_and_absent_are_one_status() -> None:
    hidden, absent = refuse(corpus.errors.NotFound("hidden"), "r"), refuse(corpus.errors.NotFound("absent"), "r")
    assert hidden == absent
