"""Parts are chosen by prefix, their figures merged, and the verdict is the last line and the exit status."""

from pathlib import Path

import pytest

from evaluation.datasets import DatasetMissing
from evaluation.figures import Figure, Target, read
from evaluation.running import Part, run
from evaluation.system import System


def part(prefix: str, values: dict[str, float], targets: tuple[Target, ...] = ()) -> Part:
    async def measure(system: System) -> list[Figure]:
        assert system.address == "", "a part without tenants starts no system"
        return [Figure(prefix + name, value, "", 1) for name, value in values.items()]

    return Part(prefix, (), measure, targets)


def parts(quality: float = 1.0) -> list[Part]:
    return [
        part("a.", {"quality": quality, "other": 2.0}, (Target("a.quality", 0.5, at_least=True),)),
        part("b.", {"speed": 3.0}),
    ]


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_all_parts_are_measured_and_the_last_line_is_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "eval.json"
    assert run("evaluation", "", parts(), path, []) == 0
    assert last_line(capsys) == "PASS: a.quality 1 (>= 0.5)"
    assert [figure.name for figure in read(path)] == ["a.other", "a.quality", "b.speed"]


def test_a_missed_target_is_said_and_is_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluation", "", parts(quality=0.4), tmp_path / "eval.json", []) == 1
    assert last_line(capsys) == "FAIL: a.quality 0.4 (>= 0.5, MISSED)"


@pytest.mark.parametrize(("only", "value"), [("a.", 0.6), ("a.quality", 0.6), ("a", 0.6)])
def test_a_part_or_less_runs_alone_and_leaves_the_rest(tmp_path: Path, only: str, value: float) -> None:
    path = tmp_path / "eval.json"
    run("evaluation", "", parts(), path, [])
    assert run("evaluation", "", parts(quality=value), path, ["--only", only]) == 0
    figures = {figure.name: figure.value for figure in read(path)}
    assert figures == {"a.quality": value, "a.other": 2.0, "b.speed": 3.0}


def test_an_unknown_prefix_names_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluation", "", parts(), tmp_path / "eval.json", ["--only", "c."]) == 2
    assert "a., b." in capsys.readouterr().err


def test_a_missing_data_set_is_said_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def measure(_: System) -> list[Figure]:
        raise DatasetMissing("scifact is not there")

    path = tmp_path / "eval.json"
    assert run("evaluation", "", [Part("a.", (), measure, ())], path, []) == 2
    assert "scifact is not there" in capsys.readouterr().err
    assert not path.exists()
