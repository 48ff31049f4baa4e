"""Random schedules: commands, publishers, clean-up and readers at random, also in the middle of each other.

Commands come between the steps of writers and readers, before a store call takes effect, while policy judges and while
a release read returns. Each command is told to the ghost, too, and the implementation is compared with it.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from core.ids import RevisionId
from corpus.acknowledge import ACKNOWLEDGE_AFTER_S, SEND_BOUND_S
from corpus.errors import EtagMismatch, LeaseLost, SnapshotUnavailable
from corpus.pinning import LATEST, Consistency
from corpus.store import StoreLate
from indexing.worklist import unsettled_operations
from retrieval.errors import ReleaseUnavailable
from tests.protocol.ghost import EVERYBODY, PENDING, Ghost
from tests.protocol.harness import Pause, Put, Steps, World, drain

DOCUMENTS = "DE"
WRITES = ("insert", "delete", "list_objects")


@dataclass
class Reader:
    """A request under way and what it must get."""

    who: str
    pause: Pause
    expected: set[RevisionId]
    searched: bool = False


@dataclass
class Machine:
    """One schedule. `trace` says what happened, in order."""

    world: World
    rng: random.Random
    ghost: Ghost = field(default_factory=Ghost)
    trace: list[str] = field(default_factory=list)
    puts: dict[RevisionId, Put] = field(default_factory=dict)
    builds: dict[str, list[RevisionId]] = field(default_factory=dict)
    writers: dict[str, Steps] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)
    last_seq: int = 0
    names: int = 0

    async def run(self, steps: int) -> None:
        """Take the steps, then let everything come to rest and look at what is left."""
        world = self.world
        await self._begin()
        world.store.acting = self._before_store_call
        world.policy.judging = lambda: self._perhaps_deny(0.4)
        world.database.cleared = self._while_a_read_returns
        actions: list[tuple[int, Callable[[], object]]] = [
            (8, self._instant), (3, self._new_publisher), (2, self._new_settler), (6, self._new_reader),
            (18, self._advance), (12, self._read_on), (1, self._kill), (1, self._expire),
            (2, self._pass), (4, self._disturb),
        ]  # fmt: skip
        for _ in range(steps):
            (action,) = self.rng.choices([a for _, a in actions], [weight for weight, _ in actions])
            outcome = action()
            if hasattr(outcome, "__await__"):
                await outcome
            self._compare()
        await self._rest()

    async def _begin(self) -> None:
        """Something is published already."""
        for documents in (DOCUMENTS, DOCUMENTS[0])[: self.rng.randint(1, 2)]:
            for document in documents:
                self._accept(document, "pq", None)
                self._stage()
            self._new_publisher()
            while self.writers:
                await self._advance()

    # ---- Commands -----------------------------------------------------------------------------------------------

    def _perhaps_deny(self, chance: float) -> None:
        """Something that a release under way must heed, mostly acknowledged before the release goes on."""
        if self.rng.random() < chance:
            self.rng.choice([self._delete, self._set_access, self._set_access, self._put, self._instant])()
            if self.rng.random() < 0.7:
                self._pass()

    def _perhaps(self, chance: float) -> None:
        if self.rng.random() < chance:
            self._instant()

    def _instant(self) -> None:
        commands: list[tuple[int, Callable[[], None]]] = [
            (6, self._put), (6, self._stage), (4, self._set_access), (1, self._delete), (2, self._rollback),
            (1, self._abandon), (2, self._seal), (1, self._fail),
        ]  # fmt: skip
        self.rng.choices([c for _, c in commands], [weight for weight, _ in commands])[0]()

    def _who(self) -> str:
        return self.rng.choice(["p", "q", "pq", "pq", "pq"])

    def _put(self) -> None:
        document, who, build = self.rng.choice(DOCUMENTS), self._who(), None
        if self.rng.random() < 0.3:
            build = self.rng.choice([*self.builds, ""]) or self.world.begin()
            if self._state("builds", "build_id", build) != "open":
                return
        self._accept(document, who, build)

    def _accept(self, document: str, who: str, build: str | None) -> None:
        put = self.world.accept(document, who, build=build)
        self.puts[put.revision_id] = put
        if build is not None:
            self.builds.setdefault(build, []).append(put.revision_id)
        self.ghost.put(put.revision_id, document, frozenset(who), put.operation_id, self.world.clock.now)
        self._say(f"put {self._name(put.revision_id)} of {document} for {who}{' in a build' if build else ''}")

    def _stage(self) -> None:
        waiting = [r for r, v in self.ghost.revisions.items() if v.state == "accepted"]
        if waiting:
            revision = self.rng.choice(waiting)
            assert self.world.stage(self.puts[revision])
            self.ghost.revisions[revision].state = "staged"
            self._say(f"stage {self._name(revision)}")

    def _fail(self) -> None:
        waiting = [r for r, v in self.ghost.revisions.items() if v.state == "accepted"]
        if waiting and self.rng.random() < 0.3:
            revision = self.rng.choice(waiting)
            self.world.fail(self.puts[revision])
            self.ghost.end_pending(revision, "failed", self.puts[revision].operation_id)
            self._say(f"fail {self._name(revision)}")

    def _set_access(self) -> None:
        document, who = self.rng.choice(DOCUMENTS), self._who()
        if not self._exists(document):
            return
        named = self.ghost.serving(document)
        if self.rng.random() < 0.1:
            try:
                self.world.set_access(document, who, etag="stale")
            except EtagMismatch:
                return
            raise AssertionError("a stale etag was taken")
        etag = None if self.rng.random() < 0.8 else ""
        operation = self.world.set_access(document, who, etag=etag)
        named = named if etag is None else None
        self.ghost.set_access(document, frozenset(who), named, operation, self.world.clock.now)
        self._say(f"set access of {document} to {who}, naming {named and self._name(named)}")

    def _delete(self) -> None:
        document = self.rng.choice(DOCUMENTS)
        if self._exists(document):
            self.world.delete(document)
            self.ghost.delete(document, self.world.clock.now)
            self._say(f"delete {document}")

    def _rollback(self) -> None:
        known = [seq for seq in self.ghost.snapshots if seq not in (0, self.ghost.active)]
        if known:
            seq = self.rng.choice(known)
            self.world.rollback(seq)
            self.ghost.rollback(seq)
            self._say(f"roll back to {seq}")

    def _seal(self) -> None:
        sealable = [b for b in self.builds if self._state("builds", "build_id", b) == "open"]
        if sealable:
            self.world.seal(self.rng.choice(sealable))
            self._say("seal a build")

    def _abandon(self) -> None:
        alive = [b for b in self.builds if self._state("builds", "build_id", b) in ("open", "sealed")]
        if alive:
            build = self.rng.choice(alive)
            pending = [r for r in self.builds[build] if self.ghost.revisions[r].state in PENDING]
            self.ghost.abandon(pending, self.world.abandon(build))
            self._say(f"abandon {list(map(self._name, pending))}")

    def _exists(self, document: str) -> bool:
        d = self.ghost.documents.get(document)
        return d is not None and d.tombstone != d.number

    # ---- Writers ------------------------------------------------------------------------------------------------

    def _new_publisher(self) -> None:
        self.names += 1
        name = f"publisher {self.names}"
        self.writers[name] = self.world.publishing(name)

    def _new_settler(self) -> None:
        busy = {name.partition(" ")[2] for name in self.writers}
        waiting = [o.operation_id for o in unsettled_operations(self.world.database) if o.operation_id not in busy]
        if waiting:
            operation = self.rng.choice(waiting)
            self.writers[f"settler {operation}"] = self.world.settling(operation)

    async def _advance(self) -> None:
        if not self.writers:
            return
        name = self.rng.choice(list(self.writers))
        try:
            step = await anext(self.writers[name])
        except StopAsyncIteration:
            await self._ended(name)
        except LeaseLost:
            self._say(f"{name}: has lost its lease")
            del self.writers[name]
        except StoreLate:
            self.world.store.deliver()  # during the drain
            self._say(f"{name}: a store call was late")
            del self.writers[name]
        else:
            self._say(f"{name}: {step}")
        self._observe_publication()

    async def _ended(self, name: str) -> None:
        del self.writers[name]
        kind, _, operation = name.partition(" ")
        if kind == "settler":
            self.world.end(operation)

    async def _kill(self) -> None:
        if self.writers:
            name = self.rng.choice(list(self.writers))
            await self.writers.pop(name).aclose()
            self._say(f"{name}: killed")

    def _expire(self) -> None:
        self.world.expire_lease()
        self._say("the lease expires")

    def _disturb(self) -> None:
        """Something that a publication in progress must heed at its move."""
        if self.world.database.read("SELECT * FROM publications"):
            self.rng.choice([self._delete, self._abandon, self._rollback, self._set_access, self._expire])()

    def _before_store_call(self, op: str) -> None:
        self._perhaps(0.15)
        if op in WRITES and self.rng.random() < 0.02:
            self.rng.choice([self.world.store.late, self.world.store.lost]).append(op)

    def _observe_publication(self) -> None:
        """Tell the ghost what the publisher's last transaction did, which was the last thing before its step."""
        read = self.world.database.read
        for revision, state, operation in read(
            "SELECT r.revision_id, r.state, o.operation_id FROM revisions r LEFT JOIN operations o "
            "ON o.operation_id = (SELECT MAX(operation_id) FROM operations WHERE kind = 'publish' AND created_by = '') "
            "WHERE r.state = 'dropped' ORDER BY r.number"
        ):
            if self.ghost.revisions[revision].state != state:
                self.ghost.end_pending(revision, state, operation)
                self._say(f"drops {self._name(revision)}")
        for seq, base in read("SELECT seq, base_seq FROM snapshots ORDER BY seq"):
            if seq not in self.ghost.snapshots:
                self._observe_move(seq, base)

    def _observe_move(self, seq: int, base: int) -> None:
        read = self.world.database.read
        assert base == self.ghost.active
        fresh = [r for (r,) in read(
            "SELECT r.revision_id FROM revisions r JOIN operations o ON o.operation_id = r.operation_id "
            "WHERE r.state = 'published' AND o.seq = ? ORDER BY r.number", (seq,)
        )]  # fmt: skip
        for revision in fresh:
            assert self.ghost.revisions[revision].state == "staged", f"{self._name(revision)} is published"
            assert not self.ghost.denied(revision)
        operation = read("SELECT operation_id FROM operations WHERE seq = ? AND created_by = ''", (seq,))[0][0]
        self.ghost.publish(seq, base, fresh, operation)
        self._say(f"moves {base} -> {seq} with {list(map(self._name, fresh))}")

    # ---- Readers ------------------------------------------------------------------------------------------------

    async def _new_reader(self) -> None:
        who, consistency = self.rng.choice("pqq"), self._consistency()
        try:
            pause = await self.world.pin(who, consistency)
        except SnapshotUnavailable:
            assert not self._is_readable(consistency), f"{consistency} is refused"
            return
        assert self._is_readable(consistency), f"{consistency} is granted"
        seq = pause.view.opened.pin.seq
        reader = Reader(who, pause, {r for r in self.ghost.snapshots[seq] if self._is_due(r, who)})
        self.readers.append(reader)
        self._say(f"{who} pins {seq} and must get {sorted(map(self._name, reader.expected))}")

    def _consistency(self) -> Consistency:
        match self.rng.randrange(4):
            case 0 if self.last_seq:
                return Consistency(exact=self.rng.randint(1, self.last_seq))
            case 1:
                times = self.world.database.read("SELECT activated_at FROM activations")
                return Consistency(known_at_us=self.rng.choice(times)[0]) if times else LATEST
        return LATEST

    def _is_readable(self, consistency: Consistency) -> bool:
        return consistency.exact is None or consistency.exact in self.ghost.lineage()

    def _is_due(self, revision: RevisionId, who: str) -> bool:
        """Permitted now, and not by a widening that the store has not been settled with."""
        unsettled = {operation for (operation,) in self.world.database.read("SELECT operation_id FROM unsettled")}
        waiting = {(r, w) for operation, r, w in self.ghost.awaiting if operation in unsettled}
        return self.ghost.may_see(revision, who) and (revision, who) not in waiting

    def _narrow_expectation(self, reader: Reader) -> None:
        reader.expected = {r for r in reader.expected if self._is_due(r, reader.who)}

    async def _read_on(self) -> None:
        if not self.readers:
            return
        reader = self.readers[0] if self.rng.random() < 0.7 else self.rng.choice(self.readers)
        if not reader.searched:
            self._narrow_expectation(reader)
            await reader.pause.search()
            reader.searched = True
            self._narrow_expectation(reader)
            return
        self.readers.remove(reader)
        self._narrow_expectation(reader)
        try:
            sent = await reader.pause.release()
        except ReleaseUnavailable:
            self._say(f"{reader.who}: nothing is released")
            return
        self._check_sent(reader, sent)

    def _check_sent(self, reader: Reader, sent: set[RevisionId]) -> None:
        self._narrow_expectation(reader)
        seq = reader.pause.view.opened.pin.seq
        self._say(f"{reader.who} is sent {sorted(map(self._name, sent))} of {seq}")
        assert sent <= self.ghost.snapshots[seq], "not in the snapshot"
        self.ghost.check_sent(reader.who, sent, self.world.clock.now, ACKNOWLEDGE_AFTER_S)
        assert reader.expected <= sent, f"missing: {list(map(self._name, reader.expected - sent))}"

    def _while_a_read_returns(self) -> None:
        self._perhaps_deny(0.3)

    def _pass(self) -> None:
        self.world.clock.now += self.rng.choice([SEND_BOUND_S / 2, SEND_BOUND_S, *[ACKNOWLEDGE_AFTER_S] * 2])

    # ---- Comparing ----------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Numbers, states and who may see what are the model's; no seq is drawn twice."""
        read = self.world.database.read
        bodies = {digest: json.loads(body) for digest, body in read("SELECT digest, body FROM accesses")}
        for revision, state, binding in read("SELECT revision_id, state, binding FROM revisions"):
            v = self.ghost.revisions[revision]
            assert state == v.state, f"{self._name(revision)} is {state}, not {v.state}"
            if state in (*PENDING, "published"):
                groups = [frozenset(bodies[digest]["allowed_groups"]) for digest in json.loads(binding)]
                allowed = EVERYBODY.intersection(*groups)
                assert allowed == v.allowed, f"{self._name(revision)} is for {set(allowed)}, not for {set(v.allowed)}"
        ((last, active),) = read("SELECT last_seq, active_seq FROM tenants")
        assert active == self.ghost.active
        assert last >= self.last_seq
        self.last_seq = last
        drawn = [seq for (seq,) in read("SELECT seq FROM publications")]
        assert not set(drawn) & self.ghost.snapshots.keys(), "a seq is drawn twice"

    async def _rest(self) -> None:
        """Everything that is under way goes on to its end, and what is left is taken over."""
        self.rng = random.Random(0)
        world = self.world
        world.store.acting, world.policy.judging, world.database.cleared = lambda _: None, lambda: None, lambda: None
        while self.readers:
            await self._read_on()
        while self.writers:
            await self._advance()
        for revision, v in list(self.ghost.revisions.items()):
            if v.state == "accepted":
                assert world.stage(self.puts[revision])
                v.state = "staged"
        for build in self.builds:
            if self._state("builds", "build_id", build) == "open":
                world.seal(build)
        world.expire_lease()
        self.writers["publisher last"] = world.publishing("last")
        while self.writers:
            await self._advance()
        for each in unsettled_operations(world.database):
            await drain(world.settling(each.operation_id))
            world.end(each.operation_id)
        self._compare()
        world.assert_quiet()
        self._check_snapshots()
        for who in "pq":
            expected = {r for r in self.ghost.snapshots[self.ghost.active] if self.ghost.may_see(r, who)}
            assert await world.read(who) == expected

    def _check_snapshots(self) -> None:
        rows = self.world.database.read(
            "SELECT s.seq, r.revision_id FROM snapshots s JOIN intervals i ON i.from_seq <= s.seq AND s.seq < i.to_seq "
            "JOIN revisions r ON r.revision_key = i.revision_key"
        )
        for seq, revisions in self.ghost.snapshots.items():
            content = {revision for at, revision in rows if at == seq}
            assert all(self.ghost.denied(r) for r in revisions ^ content), f"the catalog's seq {seq} is wrong"
        if not self.ghost.rolled_back:
            for document in self.ghost.documents:
                self._check_newest_serves(document)

    def _check_newest_serves(self, document: str) -> None:
        numbers = {r: v.number for r, v in self.ghost.revisions.items() if v.document == document}
        published = [r for r in numbers if self.ghost.revisions[r].state == "published" and not self.ghost.denied(r)]
        serving = self.ghost.serving(document)
        assert serving == max(published, key=numbers.__getitem__, default=None)

    def _state(self, table: str, key: str, value: str) -> str:
        return str(self.world.database.read(f"SELECT state FROM {table} WHERE {key} = ?", (value,))[0][0])  # noqa: S608

    def _name(self, revision: RevisionId) -> str:
        return f"r{list(self.ghost.revisions).index(revision) + 1}"

    def _say(self, text: str) -> None:
        self.trace.append(text)
