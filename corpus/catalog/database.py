"""One catalog file: a writer thread for commands, one read-only connection for hot reads.

Hot reads are synchronous on the event loop: 4 to 6 microseconds for a row, where a pool or a thread costs 40 to 600.
They never run inside a transaction of their own, and one at a time: statements of one connection that overlap share a
snapshot. So each sees the newest commit of any process.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import time_ns
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from core.ids import Incarnation, new_id
from corpus.catalog.schema import meta
from corpus.errors import CatalogUnavailable

T = TypeVar("T")
BUSY_TIMEOUT_S = 10.0
MIGRATIONS = Path(__file__).with_name("migrations")


def now_us() -> int:
    """Microseconds since 1970, UTC: the unit of every time in the catalog."""
    return time_ns() // 1000


def in_batches(values: Sequence[T], size: int = 500) -> list[Sequence[T]]:
    """`values` in runs that fit a statement's parameters."""
    return [values[i : i + size] for i in range(0, len(values), size)]


class Database:
    """The catalog of one data directory. Open it with `Database.open`, which migrates; close it when done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = _engine(path)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="catalog-writer")
        self._reader = _reader(path)
        self._reading = threading.Lock()  # the indexer reads on threads, too
        self.incarnation = Incarnation(self.read("SELECT value FROM meta WHERE name = 'incarnation'")[0][0])

    @classmethod
    def open(cls, path: Path) -> "Database":
        """Bring the file to the newest schema, then open it."""
        migrate(path)
        return cls(path)

    def read(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Rows of one autocommit SELECT on the event loop; CatalogUnavailable when the file can't be read."""
        try:
            with self._reading:
                return self._reader.execute(sql, parameters).fetchall()
        except sqlite3.Error as exc:
            raise CatalogUnavailable("the catalog can't be read") from exc

    async def write(self, command_: Callable[[sa.Connection], T]) -> T:
        """Run `command_` in one IMMEDIATE transaction on the writer thread: all or nothing.

        A caller that goes away does not stop what has begun.
        """
        return await asyncio.get_running_loop().run_in_executor(self._writer, self.write_now, command_)

    def write_now(self, command_: Callable[[sa.Connection], T]) -> T:
        """The same on the calling thread: for start-up and tests."""
        try:
            with self._engine.begin() as tx:
                return command_(tx)
        except sa.exc.DatabaseError as exc:
            if isinstance(exc, sa.exc.IntegrityError | sa.exc.ProgrammingError | sa.exc.DataError):
                raise  # a fault of ours, not of the file
            raise CatalogUnavailable("the catalog can't be written") from exc

    def close(self) -> None:
        """Finish what the writer has begun, then close every connection."""
        self._writer.shutdown(wait=True)
        self._reader.close()
        self._engine.dispose()


def migrate(path: Path, revision: str = "head") -> None:
    """Bring the catalog at `path` to `revision`, making the file where there is none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = _engine(path)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            if not connection.execute(sa.select(meta.c.value).where(meta.c.name == "incarnation")).first():
                connection.execute(meta.insert().values(name="incarnation", value=new_id()))
    finally:
        engine.dispose()


def _engine(path: Path) -> sa.Engine:
    connect_args = {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    # Hidden, since an error's text would carry ids, titles and accesses into a log (I11).
    engine = sa.create_engine(f"sqlite:///{path}", connect_args=connect_args, hide_parameters=True)

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _reader(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_S
        )
        connection.execute("PRAGMA cache_size = -65536")
    except sqlite3.Error as exc:
        raise CatalogUnavailable("the catalog can't be opened") from exc
    return connection
