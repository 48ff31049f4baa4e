"""An indexer process that dies of a document that says `poison`: `python -m tests.fakes.dying_indexer DIRECTORY`.

Without such a document it ends when nothing is pending. For tests of what a next process does.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fakes.memory_store import MemoryStore
from tests.indexing_world import DIMENSION, REPRESENTATION, LetterEncoder, World, opened

DIED = 9


def _die(texts: Sequence[str]) -> None:
    if any("poison" in text for text in texts):
        os._exit(DIED)


async def _main(directory: Path) -> None:
    async with opened(directory) as record:
        store = MemoryStore(REPRESENTATION.representation_id, DIMENSION)
        await World(record, store, LetterEncoder(_die)).run_until(
            lambda: not record.value("SELECT count(*) FROM operations WHERE state IN ('pending', 'running')")
        )


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
