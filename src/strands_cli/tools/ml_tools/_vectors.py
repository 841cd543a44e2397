"""Texts as vectors of length 1, from the weights that come with the package wordllama."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MODEL = "l2_supercat_256"
MAX_TEXTS = 1_000
MAX_CHARACTERS = 10_000
TEXT = {
    "type": "string",
    "pattern": r"\S",
    "maxLength": MAX_CHARACTERS,
}
TEXTS = {
    "type": "array",
    "items": TEXT,
    "minItems": 1,
    "maxItems": MAX_TEXTS,
    "description": "The texts",
}
REQUIRES = {"wordllama": ">=0.4,<0.5"}

_PADDED_CHARACTERS = 20_000
"""How long the texts of one batch may be together: each gets as much memory as the longest of them."""


def embed_texts(texts: list[str]) -> "Vectors":
    """Returns one row for each text. The product of two rows is how similar they are: at most 1."""
    import numpy as np

    batch = max(1, min(64, _PADDED_CHARACTERS // max(map(len, texts))))
    return unit_vectors(np.asarray(_model().embed(texts, batch_size=batch), dtype=np.float32))


def unit_vectors(rows: "Vectors") -> "Vectors":
    """Returns the rows with the length 1; a row of zeros stays as it is."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, np.where(lengths == 0, 1, lengths), dtype=np.float32)


@cache
def _model() -> Any:
    """Loads the weights once, from the package itself: nothing is downloaded."""
    import logging
    from pathlib import Path

    # Importing wordllama configures the logging of the whole program, unless there is a handler already.
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        import wordllama  # type: ignore[import-untyped]
    finally:
        logging.getLogger().removeHandler(handler)
    # Without cache_dir it looks for its tokenizer in the user's cache, and then on the network.
    own = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load("l2_supercat", cache_dir=own, disable_download=True)
