"""Makes models of timm."""

from __future__ import annotations

import functools
from typing import Any

from tosa_convert.frontends.named.wanted import (
    SEED,
    Wanted,
    imports_of,
    in_inference,
    parameters,
    random_numbers,
    refuse_too_large,
)


def make_model(wanted: Wanted) -> tuple[Any, tuple[Any, ...]]:
    """Return a model of timm and an image of the size that its configuration names."""
    with imports_of("timm"):
        import timm as library
        import torch
    timm: Any = library
    if not timm.is_model(wanted.name):
        raise wanted.unknown("model", timm.list_models())
    channels, *size = timm.get_pretrained_cfg(wanted.name).input_size
    shape = wanted.shape("x", (wanted.size("batch", 1), channels, *size))
    wanted.refuse_unused(["x"])
    refuse_too_large(parameters(torch, lambda: timm.create_model(wanted.name)), wanted)
    torch.manual_seed(SEED)
    create = functools.partial(
        timm.create_model,
        wanted.name,
        pretrained=not wanted.random_weights,
        in_chans=None if shape[1] == channels else shape[1],
    )
    with wanted.made():
        try:
            module = create(img_size=None if [*shape[2:]] == size else shape[2:])
        except TypeError as error:
            if "img_size" not in str(error):
                raise
            module = create()  # It takes images of any size.
    return in_inference(torch, module, wanted), (random_numbers(torch, shape),)
