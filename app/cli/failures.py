"""Errors in words that say what to do. Looks only at what is imported: no other room can have raised one."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

_CLIENT_ADVICE = {
    "UNAUTHENTICATED": "Is the token expired, or of another gateway? `--as USER` mints a fresh one from the data "
    "directory of the gateway that runs there.",
    "NOT_ALLOWED": "Ask as somebody with the right: `publisher` makes sources and handles snapshots; writing needs the "
    "role `writer` and a place among the source's writers.",
    "NOT_FOUND": "It is absent, or not visible to this token: the two are never told apart.",
    "ACCESS_MISSING": "Say who may see it (--public, --group, --owner, …), or give the source a template.",
    "ETAG_MISMATCH": "Somebody changed it meanwhile: look again (`muniment documents show`) and decide again.",
    "SNAPSHOT_UNAVAILABLE": "`muniment snapshots list` names those that can be read.",
    "POLICY_UNAVAILABLE": "Is the policy engine running? See `muniment status` and its log.",
    "STORE_UNAVAILABLE": "Is the store running? See `muniment status` and its log.",
}


def explained(exc: BaseException) -> str | None:
    """The text for people; None for what nobody raised on purpose."""
    for kind, tell in _tellers():
        if isinstance(exc, kind):
            return "\n".join((tell(exc), *getattr(exc, "__notes__", ())))
    return None


def _tellers() -> Iterator[tuple[type[BaseException], Callable[[Any], str]]]:
    for module, name, tell in (
        ("muniment.errors", "MunimentError", _of_client),
        ("deploy.errors", "DeployError", str),
        ("app.settings", "SettingsFault", _of_settings),
        ("app.issuer", "IssuerFault", str),
        ("app.layout", "NotRunning", str),
        ("app.demo.checks", "DemoFailed", str),
    ):
        if module in sys.modules:
            yield getattr(sys.modules[module], name), tell


def _of_settings(exc: Any) -> str:
    return "the settings are not right:\n" + "\n".join(f"  - {fault}" for fault in exc.faults)


def _of_client(exc: Any) -> str:
    lines = [f"{exc.reason or exc.code.name}: {exc.message or 'no text was given'}"]
    lines += [f"  - {violation.field}: {violation.description}" for violation in exc.violations]
    if exc.code.name == "UNAVAILABLE" and not exc.reason:
        lines = ["the gateway does not answer.", "Is it running? `muniment status` tells, `muniment up` starts it."]
    elif exc.code.name == "DEADLINE_EXCEEDED" and not exc.reason:
        lines = ["there was no answer in time. The gateway may be busy: try again."]
    elif exc.reason in _CLIENT_ADVICE:
        lines.append(_CLIENT_ADVICE[exc.reason])
    if exc.retry_after is not None:
        lines.append(f"A retry helps, in {exc.retry_after:g} s.")
    if exc.request_id:
        lines.append(f"Request {exc.request_id}.")
    return "\n".join(lines)
