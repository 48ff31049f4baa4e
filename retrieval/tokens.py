"""Exact token counts, by the tokenizer that a profile names and the ledger states."""

import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any

from core.errors import InvalidValue

DEFAULT_TOKENIZER = "o200k_base"
TOKENIZERS = ("o200k_base", "cl100k_base")  # tables ship in the package: nothing is downloaded


class Tokenizer:
    """Counts as OpenAI's encoding `name` does, special tokens taken as ordinary text; safe to share between threads."""

    def __init__(self, name: str) -> None:
        if name not in TOKENIZERS:
            raise InvalidValue("tokenizer", f"must be one of {', '.join(TOKENIZERS)}")
        self.name = name
        self._encoding = _bindings().tokenizer_for_encoding(name)

    def count(self, text: str) -> int:
        """Number of tokens; linear, about 10 µs for 600 characters. ValueError for lone surrogates."""
        return int(self._encoding.count(text))

    def count_till(self, text: str, limit: int) -> int | None:
        """The number of tokens when it is at most `limit`, else None, without reading on."""
        if limit < 0:
            return None
        count = self._encoding.count_till_limit(text, limit)
        return None if count is None else int(count)


def _bindings() -> Any:
    """The package's compiled part: its public Encoding has no `count`. Late, since the import alone takes a second."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "open_binary is deprecated", DeprecationWarning)  # the package's own fault
        return import_module("bpe_openai._bindings")


@lru_cache(maxsize=len(TOKENIZERS))
def tokenizer(name: str = DEFAULT_TOKENIZER) -> Tokenizer:
    """The one tokenizer of that name. The first call takes 0.7 s: make it where the process is put together."""
    return Tokenizer(name)
