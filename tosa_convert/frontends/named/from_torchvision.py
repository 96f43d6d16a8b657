"""Makes models of torchvision."""

from __future__ import annotations

import inspect
from typing import Any, Final

from tosa_convert.frontends.named.wanted import (
    SEED,
    Wanted,
    imports_of,
    in_inference,
    random_numbers,
    refuse_too_large,
)

#: The size of an image if the weights of a model name none.
_SIZE: Final = 224
_FRAMES: Final = 16
#: The sizes of images between which optical flow is computed, which are multiples of 8.
_FLOW: Final = 128


def make_model(wanted: Wanted) -> tuple[Any, tuple[Any, ...]]:
    """Return a model of torchvision and images of the size that its weights were trained with."""
    with imports_of("torchvision"):
        import torch
        from torchvision import models
    if wanted.name not in models.list_models():
        raise wanted.unknown("model", models.list_models())
    torch.manual_seed(SEED)
    trained = models.get_model_weights(wanted.name).DEFAULT
    refuse_too_large(trained.meta["num_params"], wanted)
    transforms = trained.transforms()
    options = {"weights": None if wanted.random_weights else "DEFAULT"}
    builder = inspect.signature(models.get_model_builder(wanted.name))
    if wanted.random_weights and "weights_backbone" in builder.parameters:
        options["weights_backbone"] = None
    with wanted.made():
        module = models.get_model(wanted.name, **options)
    sizes = [getattr(transforms, name, None) for name in ("crop_size", "resize_size")]
    size = next(filter(None, sizes), [_SIZE])
    kind, first = type(transforms).__name__, (wanted.size("batch", 1), 3)
    names = [next(iter(inspect.signature(module.forward).parameters))]
    shape: tuple[int, ...] = (*first, size[0], size[-1])
    if kind == "VideoClassification":
        shape = (*first, _FRAMES, size[0], size[-1])
    elif kind == "OpticalFlow":
        names, shape = ["image1", "image2"], (*first, _FLOW, _FLOW)
    found = [random_numbers(torch, wanted.shape(name, shape)) for name in names]
    wanted.refuse_unused(names)
    # A detector takes a list of images, each of its own size.
    arguments = ([*found[0]],) if kind == "ObjectDetection" else tuple(found)
    return in_inference(torch, module, wanted), arguments
