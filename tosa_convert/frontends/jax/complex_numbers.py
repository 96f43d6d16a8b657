"""Complex numbers inside a program: each primitive computes with pairs of arrays.

Arguments and results stay real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.jax.step import Rule, Step
from tosa_convert.frontends.lowering import complex_numbers
from tosa_convert.frontends.lowering.complex_numbers import ADVICE, Pair
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.scope import Array, NotLowered

#: Primitives that do the same to both parts.
_BY_PARTS: Final = frozenset(
    (
        *("add", "add_any", "broadcast_in_dim", "concatenate", "copy", "copy_p", "cumsum"),
        *("dynamic_slice", "dynamic_update_slice", "expand_dims", "gather", "neg", "pad"),
        *("optimization_barrier", "reduce_sum", "reshape", "rev", "select_n", "slice", "split"),
        *("squeeze", "sub", "transpose"),
    )
)


def is_complex(dtype: Any) -> bool:
    """Return whether elements are complex numbers."""
    return getattr(dtype, "kind", "") == "c"


def as_parts(data: Any) -> Array:
    """Make a constant of complex numbers, as its parts."""
    parts = [np.array(part) for part in (data.real, data.imag)]
    held = [Array(part.dtype, tuple(part.shape), part) for part in parts]
    return Array(data.dtype, tuple(data.shape), parts=(held[0], held[1]))


def lower_complex(name: str, step: Step, rule: Rule | None) -> list[Array]:
    """Return the results of a primitive with complex numbers. rule: lowers it for real numbers."""
    of_parts = replace(step, dtypes=[np.zeros((), dtype).real.dtype for dtype in step.dtypes])
    if name in _RULES:
        made = _RULES[name](of_parts, *map(_parts, step.inputs))
        found = [made]
    elif name in _BY_PARTS and rule is not None:
        both = []
        for part in range(2):
            inputs = [item.parts[part] if item.parts else item for item in step.inputs]
            results = rule(replace(of_parts, inputs=inputs))
            both.append([results] if isinstance(results, Array) else results)
        found = [
            (real, imag) if is_complex(dtype) else real
            for real, imag, dtype in zip(*both, step.dtypes, strict=True)
        ]
    elif name == "dot_general" and rule is not None:
        found = [_product(of_parts, rule, *map(_parts, step.inputs))]
    else:
        raise NotLowered(f"TOSA does not have complex numbers, and {name} has them", ADVICE)
    return [
        item if isinstance(item, Array) else Array(dtype, shape, parts=item)
        for item, dtype, shape in zip(found, step.dtypes, step.shapes, strict=True)
    ]


def _parts(a: Array) -> Pair:
    return complex_numbers.of_real(a) if a.parts is None else a.parts


def _product(step: Step, rule: Rule, x: Pair, y: Pair) -> Pair:
    """Multiply arrays."""

    def dot(a: Array, b: Array) -> Array:
        made = rule(replace(step, inputs=[a, b]))
        assert isinstance(made, Array)
        return made

    s = step.scope
    real = s.sub(dot(x[0], y[0]), dot(x[1], y[1]))
    return real, s.add(dot(x[0], y[1]), dot(x[1], y[0]))


def _converted(step: Step, x: Pair) -> Pair | Array:
    real, imag = (converted(step.scope, part, step.dtype) for part in x)
    return (real, imag) if is_complex(step.params["new_dtype"]) else real


def _fourier(step: Step, x: Pair) -> Pair | Array:
    s, lengths = step.scope, step.params["fft_lengths"]
    kind = str(getattr(step.params["fft_type"], "name", step.params["fft_type"]))
    axes = range(-len(lengths), 0)
    is_inverse = kind.startswith("I")
    if kind not in ("RFFT", "IRFFT"):
        return complex_numbers.transformed(s, x, axes, is_inverse)
    if not is_inverse:
        x = complex_numbers.transformed_real(s, x[0], -1)
    x = complex_numbers.transformed(s, x, axes[:-1], is_inverse)
    return complex_numbers.real_from_half(s, x, -1, lengths[-1]) if is_inverse else x


def _of_pairs(function: Callable[..., Pair | Array]) -> Callable[..., Pair | Array]:
    return lambda step, *pairs: function(step.scope, *pairs)


_RULES: Final[dict[str, Callable[..., Pair | Array]]] = {
    "abs": _of_pairs(complex_numbers.magnitude),
    "complex": lambda _, real, imag: (real[0], imag[0]),
    "conj": _of_pairs(complex_numbers.conjugate),
    "convert_element_type": _converted,
    "div": _of_pairs(complex_numbers.divided),
    "eq": _of_pairs(complex_numbers.equals),
    "exp": _of_pairs(complex_numbers.exponential),
    "fft": _fourier,
    "imag": lambda _, x: x[1],
    "integer_pow": lambda step, x: complex_numbers.integer_power(step.scope, x, step.params["y"]),
    "log": _of_pairs(complex_numbers.logarithm),
    "mul": _of_pairs(complex_numbers.mul),
    "ne": lambda step, x, y: step.scope.negation(complex_numbers.equals(step.scope, x, y)),
    "real": lambda _, x: x[0],
    "square": lambda step, x: complex_numbers.mul(step.scope, x, x),
}
