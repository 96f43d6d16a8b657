"""The networks of the zoo: families are files, and each function `make_NAME` in them is a network."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.named.wanted import Wanted

FOLDER: Final = Path(__file__).parent
PREFIX: Final = "make_"
TORCH: Final = (
    *("classifiers", "mobile", "dense_prediction", "image_generation"),
    *("attention", "speech", "sequences", "others"),
)
KERAS: Final = ("keras_classifiers", "keras_mobile", "keras_images", "keras_sequences")
#: Library of published networks -> their small inputs when they are quantised.
PUBLISHED: Final = {
    "timm": {"x": (1, 3, 64, 64)},
    "torchvision": {"x": (1, 3, 64, 64)},
    "keras": {"image": (1, 32, 32, 3)},
}
#: Standard deviation of what the last softmax of a published network of Keras takes.
_DEVIATION: Final = 4.0
JAX: Final = (
    *("jax_classifiers", "jax_mobile", "jax_dense_prediction", "jax_image_generation"),
    *("jax_attention", "jax_speech", "jax_sequences", "jax_others"),
)


def networks(families: Sequence[str]) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Iterate over family, name and factory of each network. The families' framework is imported."""
    sys.path.insert(0, str(FOLDER))
    for family in families:
        module = importlib.import_module(family)
        for name, factory in list(vars(module).items()):
            if name.startswith(PREFIX):
                yield family, name.removeprefix(PREFIX), factory


def chosen(
    families: Sequence[str], names: Collection[str]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Iterate over name and factory of the networks that are named, all of the families if none is.

    `timm:resnet18` is a published network with random weights; its file is called `timm_resnet18`.
    """
    published = [name for name in names if ":" in name]
    for name in published:
        library, _, called = name.partition(":")
        yield f"{library}_{called}", partial(published_network, library, called)
    if published and len(published) == len(names):
        return
    for _, name, factory in networks(families):
        if not names or name in names:
            yield name, factory


def published_network(library: str, name: str) -> Any:
    """Make a published network with random weights, for small images."""
    wanted = Wanted(library, name, PUBLISHED[library], random_weights=True)
    maker = importlib.import_module(f"tosa_convert.frontends.named.from_{library}")
    model = maker.make_model(wanted)
    if library == "keras":
        _spread(model)
    return model


def _spread(model: Any) -> None:
    """Scale the last weights, as a softmax of what random weights give has equal elements."""
    last = [layer for layer in model.layers if layer.get_weights()][-1]
    image = np.random.default_rng(0).normal(size=model.input_shape).astype(np.float32)
    shares = np.asarray(model(image), np.float64)
    last.kernel.assign(last.kernel * (_DEVIATION / np.log(shares).std()))
