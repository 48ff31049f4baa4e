"""Logs of libraries, without their words: asyncio and grpc quote exceptions, whose text is content (I11)."""

import json
import logging
import sys


class PlaceOnly(logging.Formatter):
    """Which logger, where in its code, and the class of the exception: one JSON line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        kind = record.exc_info[0] if record.exc_info else None
        line = {
            "event": "library",
            "logger": record.name,
            "level": record.levelname.lower(),
            "place": f"{record.filename}:{record.lineno}",
            "error": kind.__name__ if kind else None,
        }
        return json.dumps(line)


def quiet_libraries() -> None:
    """What libraries log at warning and above goes to standard error by `PlaceOnly`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlaceOnly())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
