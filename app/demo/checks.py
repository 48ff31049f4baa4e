"""Every step of the demo states what must hold; the first that does not ends it."""

from collections.abc import Collection


class DemoFailed(Exception):
    """Something is not as it should be; the text says what, and where the logs are."""


class Checks:
    """Counts what was checked."""

    def __init__(self) -> None:
        self.passed = 0

    def that(self, holds: bool, what: str) -> None:
        """DemoFailed unless it holds."""
        if not holds:
            raise DemoFailed(f"not as it should be: {what}")
        self.passed += 1

    def equal(self, found: object, wanted: object, what: str) -> None:
        """DemoFailed, with both, unless they are equal."""
        self.that(found == wanted, f"{what}: found {found!r}, wanted {wanted!r}")

    def same(self, found: Collection[str], wanted: Collection[str], what: str) -> None:
        """DemoFailed unless the two hold the same, in whatever order."""
        missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        self.that(not missing and not extra, f"{what}: missing {missing}, should not be there {extra}")
