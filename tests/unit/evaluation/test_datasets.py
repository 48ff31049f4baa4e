"""Data sets are read where the variable says, in BEIR's form."""

import gzip
import json
from pathlib import Path

import pytest

from evaluation.datasets import VARIABLE, DatasetMissing, Text, beir, folder


def write_set(root: Path) -> None:
    (root / "tiny" / "qrels").mkdir(parents=True)
    with gzip.open(root / "tiny" / "corpus.jsonl.gz", "wt", encoding="utf-8") as lines:
        lines.write(json.dumps({"_id": "d1", "title": "Title", "text": "Körper"}) + "\n")
    queries = [{"_id": "q1", "text": "one"}, {"_id": "q2", "text": "two"}, {"_id": "q3", "text": "unjudged"}]
    (root / "tiny" / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (root / "tiny" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td1\t0\n")


def test_only_queries_with_a_relevant_document_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    data = beir("tiny", "test")
    assert data.corpus == (Text("d1", "Title", "Körper"),)
    assert data.queries == {"q1": "one"}
    assert data.relevant == {"q1": {"d1": 1}}


def test_a_missing_set_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(DatasetMissing, match=VARIABLE):
        folder("scifact")
