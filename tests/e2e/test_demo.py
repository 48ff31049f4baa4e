"""`muniment demo`, once, for real: every step of it checks itself, and this looks at what it tells programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

from app.demo.cast import VISIBLE


def test_the_demo_holds_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {n: v for n, v in os.environ.items() if not n.startswith("MUNIMENT_") or n.endswith("_BIN")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "app.cli", "demo", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "TMPDIR": str(tmp_path)},
    )

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["ok"] is True
    assert summary["checks"] > 50
    assert list(summary["step_seconds"]) == [
        "start",
        "ingest",
        "revise",
        "see",
        "ask",
        "poison",
        "revoke",
        "earlier",
        "abstain",
        "cite",
        "receipt",
        "stop",
    ]
    assert summary["documents"] == {name: len(documents) for name, documents in VISIBLE.items()}
    assert summary["receipt"]["policy"].startswith("p-")
    assert {"pin", "policy", "channels"} <= set(summary["stages_ms"])
    assert list(tmp_path.iterdir()) == []
