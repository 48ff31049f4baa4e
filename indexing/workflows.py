"""Durable workflows on DBOS, in an SQLite file of its own: a record of what was begun and how it ended.

What is to be done is decided by the catalog alone, and the sweep starts it. DBOS holds, across a crash, which puts
were being staged when the process died: a document that kills the process again and again is known by it. Inputs and
outputs are ids and counts as JSON, never content and never an exception.

DBOS runs what is started from our loop in our loop. Its own recovery would run on another one and before the former
process's store calls have drained: each process is an executor of its own name, so that it finds nothing to recover.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfiguredInstance, DBOSPortableJSONSerializer, SetWorkflowID, WorkflowStatus

from core.ids import TenantId
from indexing.indexer import Failure, Indexer

APPLICATION = "muniment-indexer"
APPLICATION_VERSION = "1"  # step it when a workflow's steps change
KEPT_S = 3_600.0  # how long ended workflows are kept
THREADS = 16  # DBOS makes its pool the loop's default one; without a bound it has none
_WEIGHT = 900  # workflows deleted in one statement

Put = tuple[str, str]  # operation id, revision id


@DBOS.dbos_class("Workflows")
class Workflows(DBOSConfiguredInstance):
    """Use it in `async with`, in the loop that the store was opened in: the only instance in its process then.

    `executor` is the process's own name, never used again.
    """

    def __init__(self, path: Path, indexer: Indexer, executor: str) -> None:
        self._path = path
        self._indexer = indexer
        self._executor = executor
        self._failures: dict[str, dict[str, Failure]] = {}  # by workflow id; they stay in memory
        super().__init__(executor)

    async def __aenter__(self) -> "Workflows":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._engine = _engine(self._path)
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": f"sqlite:///{self._path}",
                "system_database_engine": self._engine,
                "application_version": APPLICATION_VERSION,
                "executor_id": self._executor,
                "serializer": DBOSPortableJSONSerializer(),
                "max_executor_threads": THREADS,
                "log_level": "ERROR",
            }
        )
        DBOS.launch()  # here and not on a thread: it adopts the loop that it is launched in
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(DBOS.destroy)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(thread_name_prefix="after-dbos"))
        self._engine.dispose()

    async def stage(self, workflow_id: str, puts: Sequence[Put]) -> dict[str, Failure]:
        """Stage a batch; the failed puts by operation id."""
        await self._run(workflow_id, self.put, [list(put) for put in puts])
        return self._failures.pop(workflow_id)

    async def publish(self, workflow_id: str, tenant_id: TenantId) -> tuple[bool, Failure | None]:
        """Whether anything was done, and how it failed."""
        outcome = await self._run(workflow_id, self.publish_tenant, tenant_id)
        return outcome["done"], self._failures.pop(workflow_id).get(tenant_id)

    async def settle(self, workflow_id: str, tenant_id: TenantId, operation_ids: Sequence[str]) -> Failure | None:
        """How it failed."""
        await self._run(workflow_id, self.settle_operations, tenant_id, list(operation_ids))
        return self._failures.pop(workflow_id).get(tenant_id)

    async def crashes(self) -> Counter[str]:
        """How often each put was being staged when its process died, by operation id; only of those still recorded."""
        rows = await DBOS.list_workflows_async(status="PENDING", name=Workflows.put.__qualname__, load_output=False)
        former = [row for row in rows if row.executor_id != self._executor]
        return Counter(operation_id for row in former for operation_id in _put_operations(row))

    async def forget(self, still_pending: set[str]) -> None:
        """Delete what ended long ago, and what died with a former process unless it accuses a put that is pending."""
        ended = await DBOS.list_workflows_async(
            completed_before=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - KEPT_S)),
            load_input=False, load_output=False,
        )  # fmt: skip
        begun = await DBOS.list_workflows_async(status="PENDING", load_output=False)
        dead = [
            row for row in begun if row.executor_id != self._executor and still_pending.isdisjoint(_put_operations(row))
        ]
        ids = [row.workflow_id for row in (*ended, *dead)]
        for start in range(0, len(ids), _WEIGHT):
            await DBOS.delete_workflows_async(ids[start : start + _WEIGHT])

    async def _run(self, workflow_id: str, workflow: Any, *arguments: object) -> Any:
        with SetWorkflowID(workflow_id):
            handle = await DBOS.start_workflow_async(workflow, *arguments)
        return await handle.get_result()

    @DBOS.workflow()
    async def put(self, puts: list[list[str]]) -> dict[str, int]:
        """Stage the puts of one batch: operation and revision ids."""
        return await self.stage_step(puts)

    @DBOS.step()
    async def stage_step(self, puts: list[list[str]]) -> dict[str, int]:
        """See Indexer.stage."""
        failures = await self._indexer.stage([(operation_id, revision_id) for operation_id, revision_id in puts])
        self._failures[str(DBOS.workflow_id)] = failures
        return {"puts": len(puts), "failed": len(failures)}

    @DBOS.workflow()
    async def publish_tenant(self, tenant_id: str) -> dict[str, bool]:
        """Publish what a tenant has staged."""
        return await self.publish_step(tenant_id)

    @DBOS.step()
    async def publish_step(self, tenant_id: str) -> dict[str, bool]:
        """See Indexer.publish."""
        done, failure = await self._indexer.publish(TenantId(tenant_id))
        self._keep(tenant_id, failure)
        return {"done": done, "failed": failure is not None}

    @DBOS.workflow()
    async def settle_operations(self, tenant_id: str, operation_ids: list[str]) -> dict[str, int]:
        """Settle the documents of some operations of a tenant."""
        return await self.settle_step(tenant_id, operation_ids)

    @DBOS.step()
    async def settle_step(self, tenant_id: str, operation_ids: list[str]) -> dict[str, int]:
        """See Indexer.settle."""
        failure = await self._indexer.settle(TenantId(tenant_id), operation_ids)
        self._keep(tenant_id, failure)
        return {"operations": len(operation_ids), "failed": int(failure is not None)}

    def _keep(self, tenant_id: str, failure: Failure | None) -> None:
        self._failures[str(DBOS.workflow_id)] = {} if failure is None else {tenant_id: failure}


def _put_operations(row: WorkflowStatus) -> list[str]:
    """Ids of the operations that a workflow was to stage; none for other workflows."""
    if row.name != Workflows.put.__qualname__ or row.input is None:
        return []
    return [operation_id for operation_id, _ in row.input["args"][-1]]


def _engine(path: Path) -> sa.Engine:
    """Not synchronous=FULL: it survives a killed process; after a power cut the catalog knows better anyway."""
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 30000", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    return engine
