"""What may be logged of an exception: where it came from, never what it says (I11).

Libraries put into their texts what they worked on: parameters of a statement, values of a filter, a file's content.
"""

import traceback
from collections.abc import Iterator
from pathlib import Path

from core.errors import MunimentFault

MAX_FRAMES = 20  # of each exception, the innermost
MAX_CAUSES = 8


def trace_of(fault: BaseException) -> list[dict[str, object]]:
    """The fault and its causes, innermost last: class, and frames as `file:line function`."""
    return [
        {
            "error": f"{type(each).__module__}.{type(each).__qualname__}",
            "frames": [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in _frames(each)],
        }
        for each in _causes(fault)
    ]


def why_of(fault: BaseException) -> str:
    """The text of a fault of ours, which is made for operators; of all others none."""
    return str(fault) if isinstance(fault, MunimentFault) else ""


def _causes(fault: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = fault
    for _ in range(MAX_CAUSES):
        if current is None:
            return
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _frames(fault: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(fault.__traceback__))[-MAX_FRAMES:]
