"""Documents in, through the client: one build, many puts at a time, one publication."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from muniment import Access, AlreadyExists, AsyncClient, FailedPrecondition, OperationFailed
from muniment.v1 import document_pb2, operation_pb2

from evaluation.datasets import Text
from evaluation.patience import patiently
from evaluation.progress import bar

CONCURRENT_PUTS = 16
POLL_S = 2.0
PAGE = 100

_UNDER_WAY = (operation_pb2.OPERATION_STATE_PENDING, operation_pb2.OPERATION_STATE_RUNNING)

PUBLIC = Access(public=True)


async def ensure_source(client: AsyncClient, source_id: str, *, template: Access = PUBLIC) -> None:
    """Make the source, unless it is there from an earlier run."""
    try:
        await client.create_source(source_id, access_template=template)
    except AlreadyExists:
        return


class NotServed(Exception):
    """Documents were put and published, and are not there."""


async def put_all(client: AsyncClient, source_id: str, texts: Iterable[Text], access: Access | None = None) -> int:
    """Put and publish all, under the source's template where no access is named; whatever ends it abandons the build.

    Answers how many were not there already. NotServed when one of them is not there afterwards.
    """
    documents = list(texts)
    build = await client.begin_build(source_id)
    try:
        puts = await _put_each(client, source_id, documents, access, build.build_id)
        await _publish(client, build.build_id, source_id, puts)
    except BaseException:
        with suppress(FailedPrecondition):  # published already
            await client.abandon_build(build.build_id)
        raise
    there = await patiently(_served, client, source_id)
    missing = [each.document_id for each in documents if each.document_id not in there]
    if missing:
        raise NotServed(f"{len(missing)} of {len(documents)}: {', '.join(missing[:5])}")
    return len(puts)


async def _served(client: AsyncClient, source_id: str) -> set[str]:
    return {document.document_id async for document in client.list_documents(source_id, page_size=PAGE)}


async def _put_each(
    client: AsyncClient, source_id: str, documents: Sequence[Text], access: Access | None, build_id: str
) -> list[str]:
    """The operations of those that were not there already."""
    waiting = iter(documents)
    operations: list[str] = []
    done = 0

    with bar(f"Putting {source_id}", len(documents)) as tell:

        async def worker() -> None:
            nonlocal done
            for document in waiting:
                answer = await _put(client, source_id, document, access, build_id)
                if not answer.unchanged:
                    operations.append(answer.operation.operation_id)
                done += 1
                tell(done)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENT_PUTS):
                group.create_task(worker())
    return operations


async def _put(
    client: AsyncClient, source_id: str, document: Text, access: Access | None, build_id: str
) -> document_pb2.PutDocumentResponse:
    return await patiently(
        client.put_document,
        source_id,
        document.document_id,
        document.text.encode(),
        title=document.title.strip(),
        media_type="text/plain",
        access=access,
        build_id=build_id,
        wait=False,
    )


async def _publish(client: AsyncClient, build_id: str, source_id: str, puts: Sequence[str]) -> None:
    """Publish and wait, with a bar: the documents are read and embedded meanwhile."""
    operation = await patiently(client.publish_build, build_id)
    with bar(f"Embedding {source_id}", len(puts)) as tell:
        ahead = 0
        while operation.state in _UNDER_WAY:
            await asyncio.sleep(POLL_S)
            ahead = await _staged(client, puts, ahead)
            tell(ahead)
            operation = await patiently(client.get_operation, operation.operation_id)
    if operation.state != operation_pb2.OPERATION_STATE_SUCCEEDED:
        raise OperationFailed(operation)


async def _staged(client: AsyncClient, puts: Sequence[str], ahead: int) -> int:
    """About how many puts are embedded: they are worked off in order, so a bisection tells. For people only."""
    low, high = ahead, len(puts)
    while low < high:
        middle = (low + high) // 2
        operation = await patiently(client.get_operation, puts[middle])
        if operation.state == operation_pb2.OPERATION_STATE_PENDING:
            high = middle
        else:
            low = middle + 1
    return low
