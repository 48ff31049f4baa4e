"""Who may see what, said once more in plain Python from the words of the policy, and by nothing of the product.

A person sees a revision when each access that binds it lets them: the document's current one, the revision's own, and
every later change that did not name the revision.
"""

from dataclasses import dataclass, field

Clearance = int | str | bool | None


@dataclass(frozen=True)
class Rights:
    """One access value."""

    public: bool = False
    owner: str = ""
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    classification: str = ""
    level: int | None = None


@dataclass(frozen=True)
class Person:
    """Who asks."""

    subject: str
    tenant: str
    groups: tuple[str, ...]
    clearance: Clearance


def lets(rights: Rights, person: Person) -> bool:
    """The platform's rule, without the tenant."""
    if set(rights.denied) & set(person.groups):
        return False
    if rights.level is not None:
        number = isinstance(person.clearance, int) and not isinstance(person.clearance, bool)
        if not number or rights.level > int(person.clearance or 0):
            return False
    if rights.owner and rights.owner == person.subject:
        return True
    if set(rights.allowed) & set(person.groups):
        return True
    return rights.public and rights.classification != "confidential"


@dataclass
class Version:
    """One published revision and what binds it."""

    revision_id: str
    text: str
    bound_by: list[Rights]
    deleted: bool = False


@dataclass
class Paper:
    """A document's life so far; the last version is the one that serves."""

    tenant: str
    source: str
    document: str
    current: Rights = field(default_factory=Rights)
    versions: list[Version] = field(default_factory=list)

    def published(self, revision_id: str, text: str, rights: Rights) -> None:
        """A put was published: its access binds what came before."""
        for version in self.versions:
            version.bound_by.append(rights)
        self.versions.append(Version(revision_id, text, [rights]))
        self.current = rights

    def access_set(self, rights: Rights, *, with_etag: bool) -> None:
        """With an etag the serving version is named and opened to just that; everything else is only ever closed."""
        for version in self.versions:
            version.bound_by.append(rights)
        if with_etag:
            self.versions[-1].bound_by[:] = [rights]
        self.current = rights

    def deleted(self) -> None:
        for version in self.versions:
            version.deleted = True

    def shows(self, version: Version, person: Person) -> bool:
        binding = [*version.bound_by, self.current]
        return not version.deleted and person.tenant == self.tenant and all(lets(each, person) for each in binding)

    def served_to(self, person: Person) -> Version | None:
        """The serving version, if the person may see it."""
        return self.versions[-1] if self.versions and self.shows(self.versions[-1], person) else None

    def versions_for(self, person: Person) -> list[Version]:
        """Newest first."""
        return [version for version in reversed(self.versions) if self.shows(version, person)]
