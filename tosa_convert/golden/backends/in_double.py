"""Compute a module of torch in FP64, in the process that runs it: it may have torch alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_double(module: Any) -> Callable[..., Any]:
    """Return a function that computes in FP64 what a module of torch computes in FP32.

    Its weights are converted, and so are tensors and types that operators get: constants and casts of
    the model. Elements of 16 bits and fewer keep their type, which the model chose.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    def wider(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.dtype == torch.float32 else value
        return torch.float64 if value is torch.float32 else value

    base: Any = TorchDispatchMode

    class InDouble(base):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            args, kwargs = tree_map(wider, (args, kwargs or {}))
            return func(*args, **kwargs)

    if isinstance(module, torch.nn.Module):
        module._apply(wider)

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(wider, (args, kwargs))
        with InDouble():
            return module(*args, **kwargs)

    return call
