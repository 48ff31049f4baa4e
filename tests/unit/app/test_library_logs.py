"""What libraries log is told without their words."""

import json
import logging

from app.logs import PlaceOnly


def test_a_record_is_told_by_its_place_and_class() -> None:
    fault = (KeyError, KeyError("hunter2"), None)
    record = logging.LogRecord("asyncio", logging.ERROR, "base.py", 7, "hunter2 %r", ("hunter2",), fault)
    line = PlaceOnly().format(record)
    assert "hunter2" not in line
    assert json.loads(line) == {
        "event": "library", "logger": "asyncio", "level": "error", "place": "base.py:7", "error": "KeyError",
    }  # fmt: skip
