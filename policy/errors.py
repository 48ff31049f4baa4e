"""What policy raises; every one of them denies.

PolicyError(MunimentFault)
├── PolicyUnavailable      the engine is away, late, answers an error or has no policy: heals without the caller
├── PolicyRevisionMoved    the engine answered under other revisions than the request is pinned to: pin again
├── UntranslatableResidual a policy uses what can't become a filter: its author must change it
├── RevisionUnproved       an answer does not say, or contradicts itself about, which revision decided it
├── MalformedDecision      an answer is not exactly of the expected shape
├── PolicyRefused          a policy text that may not be put into a bundle
├── AuditUnavailable       the audit log can't be written: nothing may be released without it
├── FilterTooLarge         a filter is deeper or larger than the store may be asked
└── IllTypedFilter         a comparison does not fit its attribute's type
"""

from core.errors import MunimentFault
from core.ids import DataRevision, PolicyRevision


class PolicyError(MunimentFault):
    """Root: whoever catches it must deny."""


class PolicyUnavailable(PolicyError):
    """No decision can be had now; nothing may be released until the engine answers again."""


class PolicyRevisionMoved(PolicyError):
    """The engine decides by `actual` and `actual_data`, not by the revisions of the request's pin."""

    def __init__(self, actual: PolicyRevision, actual_data: DataRevision) -> None:
        super().__init__(f"policy is at {actual} with data {actual_data}, the request is pinned to other revisions")
        self.actual = actual
        self.actual_data = actual_data


class UntranslatableResidual(PolicyError):
    """A residual expression outside the accepted idioms; `advice` says what to write instead.

    `file` and `line` are where the policy has it, as far as the engine told: empty and 0 otherwise.
    """

    def __init__(self, file: str, line: int, expression: str, advice: str) -> None:
        where = f"{file}:{line}: " if file else ""
        super().__init__(f"{where}{expression}: {advice}")
        self.file = file
        self.line = line
        self.expression = expression
        self.advice = advice


class RevisionUnproved(PolicyError):
    """The answer carries no, or more than one, policy or data revision."""


class MalformedDecision(PolicyError):
    """The engine answered something that is not a decision; `why` never repeats the answer's content."""

    def __init__(self, query: str, why: str) -> None:
        super().__init__(f"{query}: {why}")
        self.query = query
        self.why = why


class FilterTooLarge(PolicyError):
    """A filter beyond the stated bound: `measure` is depth, nodes or values."""

    def __init__(self, measure: str, size: int, limit: int) -> None:
        super().__init__(f"filter has {measure} {size}, at most {limit} are asked of the store")
        self.measure = measure
        self.size = size
        self.limit = limit


class IllTypedFilter(PolicyError):
    """An attribute that does not exist, or a value or operator that it can't have."""


class PolicyRefused(PolicyError):
    """`file` has, at `line`, what no bundle may hold."""

    def __init__(self, file: str, line: int, why: str) -> None:
        super().__init__(f"{file}:{line}: {why}")
        self.file = file
        self.line = line
        self.why = why


class AuditUnavailable(PolicyError):
    """A record could not be written or made durable."""
