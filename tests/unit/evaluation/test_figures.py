"""The file of figures: parts of a run merge into it, and the verdict is on what was measured."""

import json
from pathlib import Path

import pytest

from evaluation.figures import Figure, Target, merge, read, show, verdict


def figure(name: str, value: float = 1.0) -> Figure:
    return Figure(name, value, "ms", 3, "why")


def names(path: Path) -> list[str]:
    return [entry["name"] for entry in json.loads(path.read_text())]


def test_the_file_is_a_sorted_list_with_exactly_the_agreed_fields(tmp_path: Path) -> None:
    path = tmp_path / "build" / "eval.json"
    merge(path, [figure("b.two", 0.5), figure("a.one")])
    assert json.loads(path.read_text()) == [
        {"name": "a.one", "value": 1.0, "unit": "ms", "n": 3, "note": "why"},
        {"name": "b.two", "value": 0.5, "unit": "ms", "n": 3, "note": "why"},
    ]
    assert read(path) == [figure("a.one"), figure("b.two", 0.5)]
    assert [entry.name for entry in path.parent.iterdir()] == ["eval.json"]


def test_a_part_replaces_the_figures_of_its_prefix_alone(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    merge(path, [figure("a.one"), figure("b.gone"), figure("b.kept")])
    merge(path, [figure("b.kept", 2.0), figure("b.new")], only="b.")
    assert names(path) == ["a.one", "b.kept", "b.new"]
    assert read(path)[1].value == 2.0


def test_a_whole_run_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    merge(path, [figure("a.one")])
    merge(path, [figure("b.two")])
    assert names(path) == ["b.two"]


def test_what_does_not_belong_is_refused_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    merge(path, [figure("a.one")])
    with pytest.raises(ValueError, match="outside"):
        merge(path, [figure("c.three")], only="a.")
    with pytest.raises(ValueError, match="twice"):
        merge(path, [figure("a.one"), figure("a.one")], only="a.")
    assert names(path) == ["a.one"]


def test_a_damaged_file_is_named_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    for content in ("{", '[{"name": "a"}]', "3"):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"eval\.json"):
            merge(path, [figure("a.one")], only="a.")
        assert path.read_text() == content


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_is_a_finite_number(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        figure("a.one", value)


def test_the_verdict_names_each_target_with_its_figure() -> None:
    targets = [Target("a.ndcg", 0.72, at_least=True), Target("b.ratio", 1.6, at_least=False), Target("c", 1, True)]
    good = verdict([figure("a.ndcg", 0.72), figure("b.ratio", 1.6)], targets)
    assert good.passed
    assert good.text == "PASS: a.ndcg 0.72 (>= 0.72); b.ratio 1.6 (<= 1.6)"
    bad = verdict([figure("a.ndcg", 0.719), figure("b.ratio", 1.0)], targets)
    assert not bad.passed
    assert bad.text == "FAIL: a.ndcg 0.719 (>= 0.72, MISSED); b.ratio 1 (<= 1.6)"


def test_nothing_measured_is_no_pass_and_figures_without_targets_are() -> None:
    assert not verdict([], [Target("a", 1, at_least=True)]).passed
    assert verdict([figure("z")], []).passed


def test_people_read_a_line_for_each_figure() -> None:
    assert show([figure("a.one"), figure("b.two")]).count("\n") == 1
