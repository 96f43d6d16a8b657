"""The networks of the zoo: families are files, and each function `make_NAME` in them is a network."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
PREFIX: Final = "make_"
TORCH: Final = (
    *("classifiers", "mobile", "dense_prediction", "image_generation"),
    *("attention", "speech", "sequences", "others"),
)
KERAS: Final = ("keras_classifiers", "keras_mobile", "keras_images", "keras_sequences")
JAX: Final = (
    *("jax_classifiers", "jax_mobile", "jax_dense_prediction", "jax_image_generation"),
    *("jax_attention", "jax_speech", "jax_sequences", "jax_others"),
)


def networks(families: Sequence[str]) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Family, name and factory of each network. The families' framework is imported."""
    sys.path.insert(0, str(FOLDER))
    for family in families:
        module = importlib.import_module(family)
        for name, factory in vars(module).items():
            if name.startswith(PREFIX):
                yield family, name.removeprefix(PREFIX), factory
