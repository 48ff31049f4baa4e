"""Operations: the hand-over from commands to workflows, and what clients may watch."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from core.ids import OperationId, Seq, TenantId, new_id
from corpus.catalog.database import Database, in_batches, now_us
from corpus.catalog.schema import operations, unsettled


class OperationKind(StrEnum):
    """What the operation does; equal names in the contract."""

    PUT = "put"
    SET_ACCESS = "set_access"
    DELETE = "delete"
    PUBLISH = "publish"
    ABANDON = "abandon"


class OperationState(StrEnum):
    """Where it stands."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class Operation:
    """One row. Times are microseconds since 1970; `failure` is a ParseState's value, `superseded` or `internal`."""

    operation_id: OperationId
    tenant_id: TenantId
    kind: OperationKind
    state: OperationState
    created_by: str
    revision_id: str | None
    build_id: str | None
    done: int
    total: int
    failed: int
    seq: Seq | None
    failure: str | None
    message: str
    warnings: tuple[str, ...]
    created_at: int
    updated_at: int

    @property
    def ended(self) -> bool:
        """Whether nothing more will change."""
        return self.state in (OperationState.SUCCEEDED, OperationState.FAILED)


def open_operation(
    tx: sa.Connection,
    tenant_id: TenantId,
    kind: OperationKind,
    created_by: str,
    *,
    document_keys: Iterable[int] = (),
    revision_id: str | None = None,
    build_id: str | None = None,
    total: int = 1,
) -> OperationId:
    """A pending operation; its documents are unsettled until the store agrees on every replica."""
    operation_id, now = OperationId(new_id()), now_us()
    tx.execute(
        operations.insert().values(
            operation_id=operation_id,
            tenant_id=tenant_id,
            kind=kind,
            state=OperationState.PENDING,
            created_by=created_by,
            revision_id=revision_id,
            build_id=build_id,
            total=total,
            created_at=now,
            updated_at=now,
        )
    )
    unsettle(tx, tenant_id, operation_id, document_keys)
    return operation_id


def unsettle(tx: sa.Connection, tenant_id: TenantId, operation_id: str, document_keys: Iterable[int]) -> None:
    """Say that the store may differ from the catalog on these documents until `operation_id` has settled them."""
    rows = [
        {"operation_id": operation_id, "document_key": key, "tenant_id": tenant_id}
        for key in sorted(set(document_keys))
    ]
    for batch in in_batches(rows):
        tx.execute(unsettled.insert().prefix_with("OR IGNORE", dialect="sqlite"), list(batch))


def settle(tx: sa.Connection, operation_id: str) -> None:
    """Every replica of the store agrees with the catalog on the operation's documents."""
    tx.execute(unsettled.delete().where(unsettled.c.operation_id == operation_id))


def update_operation(tx: sa.Connection, operation_id: str, **values: object) -> None:
    """Set columns and the time of change. An operation that has ended stays as it is."""
    ended = (OperationState.SUCCEEDED, OperationState.FAILED)
    tx.execute(
        operations.update()
        .where(operations.c.operation_id == operation_id, operations.c.state.not_in(ended))
        .values(updated_at=now_us(), **values)
    )


def fail_operation(tx: sa.Connection, operation_id: str, failure: str, message: str) -> None:
    """End the operation as failed; `message` is ours and holds no content."""
    update_operation(tx, operation_id, state=OperationState.FAILED, failure=failure, message=message, failed=1)


_COLUMNS = ", ".join(column.name for column in operations.c)


def find_operation(database: Database, tenant_id: TenantId, operation_id: str) -> Operation | None:
    """The operation, if it is the tenant's."""
    rows = database.read(
        f"SELECT {_COLUMNS} FROM operations WHERE operation_id = ? AND tenant_id = ?",  # noqa: S608 - our own columns
        (operation_id, tenant_id),
    )
    return _operation(rows[0]) if rows else None


def read_operation(tx: sa.Connection, operation_id: str) -> Operation:
    """The operation within the transaction that opened it."""
    row = tx.execute(sa.select(operations).where(operations.c.operation_id == operation_id)).one()
    return _operation(tuple(row))


def unfinished_operations(database: Database) -> list[Operation]:
    """Everything that a workflow should be working on, oldest first."""
    rows = database.read(
        f"SELECT {_COLUMNS} FROM operations WHERE state IN ('pending', 'running') ORDER BY operation_id"  # noqa: S608
    )
    return [_operation(row) for row in rows]


def _operation(row: tuple[object, ...]) -> Operation:
    values = dict(zip((column.name for column in operations.c), row, strict=True))
    values["kind"] = OperationKind(str(values["kind"]))
    values["state"] = OperationState(str(values["state"]))
    values["warnings"] = tuple(json.loads(str(values["warnings"])))
    return Operation(**values)  # type: ignore[arg-type]
