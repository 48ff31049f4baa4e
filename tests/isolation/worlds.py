"""Generated corpora: two tenants that resemble each other as closely as they can, and people with all kinds of rights.

Everything is drawn from a seed. Ids, words and groups come from small pools, so that the tenants' documents collide,
and the groups are of the kind that other systems mix up.
"""

import asyncio
import random
from dataclasses import dataclass, field

from muniment import Access, AsyncClient

from tests.isolation.oracle import Clearance, Paper, Person, Rights
from tests.system.whole import System, eventually

SOURCES = ("wiki", "notes")
GROUPS = ("hr", "hr-managers", "HR", "a", "the", "not", "hr managers", "eng*", "r\u00e9sum\u00e9", "legal/eu")
SUBJECTS = ("ada", "Ada", "bob", "carol")
CLASSIFICATIONS = ("", "", "internal", "confidential")
TOPICS = ("leave", "travel", "laptop", "salary", "parking", "visitor", "security", "training", "canteen")
DOCUMENTS = tuple(f"policy-{letter}" for letter in "abcdefgh")
CLEARANCES: tuple[Clearance, ...] = (None, 0, 1, 3, "3", True)
PEOPLE = 15


@dataclass
class World:
    """Two tenants, their papers by (tenant, source, document), and the people who ask with one query each."""

    seed: int
    tenants: tuple[str, str]
    papers: dict[tuple[str, str, str], Paper] = field(default_factory=dict)
    people: list[tuple[Person, str]] = field(default_factory=list)

    def of(self, tenant: str) -> list[Paper]:
        return [paper for paper in self.papers.values() if paper.tenant == tenant]


def access_of(rights: Rights) -> Access:
    access = Access(
        public=rights.public,
        owner=rights.owner,
        allowed_groups=rights.allowed,
        denied_groups=rights.denied,
        classification=rights.classification,
    )
    if rights.level is not None:
        access.level = rights.level
    return access


def some_rights(rng: random.Random) -> Rights:
    return Rights(
        public=rng.random() < 0.4,
        owner=rng.choice(SUBJECTS) if rng.random() < 0.2 else "",
        allowed=tuple(rng.sample(GROUPS, rng.choice((0, 1, 1, 2, 3)))),
        denied=tuple(rng.sample(GROUPS, rng.choice((0, 0, 0, 1, 2)))),
        classification=rng.choice(CLASSIFICATIONS),
        level=rng.choice((None, None, None, 0, 1, 2, 5)),
    )


def some_people(rng: random.Random, tenants: tuple[str, str]) -> list[tuple[Person, str]]:
    people = []
    for number in range(PEOPLE):
        groups = tuple(rng.sample(GROUPS, rng.choice((0, 1, 2, 3, 6))))
        person = Person(rng.choice(SUBJECTS), tenants[number % 2], groups, rng.choice(CLEARANCES))
        people.append((person, f"What is the {rng.choice(TOPICS)} policy for {rng.choice(TOPICS)}?"))
    return people


def some_text(rng: random.Random, document: str, version: int) -> str:
    """Distinct within a tenant, so that nothing is dropped as a repeat; often equal across the two."""
    topic, other = rng.sample(TOPICS, 2)
    return (
        f"# About {document}, version {version}\n\nThe {topic} policy says that {topic} needs {rng.randint(1, 3)} days "
        f"of notice. Ask about {other} first.\n"
    )


async def build_world(system: System, seed: int) -> World:
    """Fill two tenants of the pool through the public API, each by its own administrator, and wait for it to settle."""
    world = World(seed, (f"t{2 * seed:02}", f"t{2 * seed + 1:02}"))
    world.people = some_people(random.Random(f"people {seed}"), world.tenants)
    await asyncio.gather(*(_fill(system, world, tenant) for tenant in world.tenants))
    for tenant in world.tenants:
        await eventually(lambda tenant=tenant: system.at_rest(tenant), 60)  # type: ignore[misc]
    return world


async def _fill(system: System, world: World, tenant: str) -> None:
    # The texts are drawn alike for both tenants, the accesses differ.
    texts, rng = random.Random(f"texts {world.seed}"), random.Random(f"{tenant} {world.seed}")
    async with system.admin(tenant) as admin:
        for source in SOURCES:
            await admin.create_source(source)
        await _publish(admin, world, tenant, "wiki", rng, texts, rng.sample(DOCUMENTS, 6))
        await _publish(admin, world, tenant, "notes", rng, texts, rng.sample(DOCUMENTS, 3))
        await _change(admin, world.of(tenant), rng)
        again = rng.sample([paper.document for paper in world.of(tenant) if paper.source == "wiki"], 3)
        await _publish(admin, world, tenant, "wiki", rng, texts, again)
        await _change(admin, world.of(tenant), rng)


async def _publish(
    admin: AsyncClient,
    world: World,
    tenant: str,
    source: str,
    rng: random.Random,
    texts: random.Random,
    documents: list[str],
) -> None:
    build = await admin.begin_build(source)
    put = []
    for document in documents:
        paper = world.papers.setdefault((tenant, source, document), Paper(tenant, source, document))
        text, rights = some_text(texts, document, len(paper.versions)), some_rights(rng)
        answer = await admin.put_document(source, document, text.encode(),
            filename="page.md", access=access_of(rights), build_id=build.build_id,
        )  # fmt: skip
        put.append((paper, answer.revision_id, text, rights))
    operation = await admin.publish_build(build.build_id)
    ended = await admin.wait_operation(operation.operation_id, timeout=120)
    assert not ended.HasField("error"), ended
    for paper, revision_id, text, rights in put:
        paper.published(revision_id, text, rights)


async def _change(admin: AsyncClient, papers: list[Paper], rng: random.Random) -> None:
    """Some access changes, replacing and closing, and one deletion."""
    alive = [paper for paper in papers if not paper.versions[-1].deleted]
    for paper in rng.sample(alive, 3):
        closing = some_rights(rng)
        closed = await admin.set_access(paper.source, paper.document, access_of(closing))
        paper.access_set(closing, with_etag=False)
        if rng.random() < 0.7:
            # The administrator often can't see the document, but who changed its access was told the new etag.
            rights = some_rights(rng)
            await admin.set_access(paper.source, paper.document, access_of(rights), etag=closed.etag)
            paper.access_set(rights, with_etag=True)
    gone = rng.choice(alive)
    await admin.delete_document(gone.source, gone.document)
    gone.deleted()
