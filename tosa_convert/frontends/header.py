"""Read what a model file says of its operators, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tosa_convert.frontends.process.request import scale_text


@dataclass(frozen=True, slots=True)
class ModelValue:
    """An input or an output of a model.

    dtype: its element type in the framework's words, or what it is if it is not a tensor.
    shape: its sizes; a symbol or "?" where one is dynamic; None if unknown.
    scale, zero_point: an integer i means scale * (i - zero_point); None if it is not quantised, or the
        file does not say.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    scale: float | None = None
    zero_point: int = 0

    def __str__(self) -> str:
        shape = "of unknown shape" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        text = f"{self.dtype or 'unknown type'} {shape}"
        return text if self.scale is None else f"{text} {scale_text(self.scale, self.zero_point)}"


class Header(NamedTuple):
    """The operators of a model in order, its values, and those of its operators that do not lower."""

    operators: Iterable[str]
    inputs: Iterable[ModelValue]
    outputs: Iterable[ModelValue]
    not_lowered: Iterable[str] = ()
