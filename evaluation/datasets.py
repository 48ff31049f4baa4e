"""The data sets, read where they lie: `MUNIMENT_DATASETS`, by default `../shared/datasets`."""

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

VARIABLE = "MUNIMENT_DATASETS"
DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "datasets"

Split = Literal["train", "test"]


class DatasetMissing(Exception):
    """The text says what is missing and how to name the place."""


@dataclass(frozen=True)
class Text:
    """A document of a BEIR corpus."""

    document_id: str
    title: str
    text: str


@dataclass(frozen=True)
class Ranking:
    """A BEIR set: `queries` and `relevant` by query id, the latter with a grade by document id."""

    corpus: tuple[Text, ...]
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, int]]


def folder(name: str) -> Path:
    """Where the data set of that name lies; DatasetMissing."""
    root = Path(os.environ.get(VARIABLE) or DEFAULT)
    path = root / name
    if not path.is_dir():
        raise DatasetMissing(f"{path} is not there: set {VARIABLE} to the folder that holds {name}")
    return path


def beir(name: str, split: Split) -> Ranking:
    """A set in BEIR's form, with the judged queries of one split."""
    root = folder(name)
    corpus = tuple(Text(line["_id"], line["title"], line["text"]) for line in _lines(root / "corpus.jsonl.gz"))
    relevant: dict[str, dict[str, int]] = {}
    rows = (root / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for query_id, document_id, grade in (row.split("\t") for row in rows):
        if int(grade) > 0:
            relevant.setdefault(query_id, {})[document_id] = int(grade)
    texts = {line["_id"]: line["text"] for line in _lines(root / "queries.jsonl")}
    return Ranking(corpus, {query_id: texts[query_id] for query_id in relevant}, relevant)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
