"""Complex numbers inside a program as pairs of arrays; arguments and results stay real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tosa_convert.frontends.jax.step import Rule, Step
from tosa_convert.frontends.lowering import complex_numbers
from tosa_convert.frontends.lowering.complex_numbers import ADVICE, Pair, is_complex
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


def lower_complex(name: str, step: Step, rule: Rule | None) -> list[Array]:
    """Return the results of a primitive with complex numbers. rule: lowers it for real numbers."""
    of_parts = replace(step, dtypes=list(map(complex_numbers.real_kind, step.dtypes)))
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
        dot: Any = rule
        x, y = map(_parts, step.inputs)
        found = [
            complex_numbers.contracted(
                step.scope, x, y, lambda a, b: dot(replace(of_parts, inputs=[a, b]))
            )
        ]
    else:
        raise NotLowered(f"TOSA does not have complex numbers, and {name} has them", ADVICE)
    return [
        item if isinstance(item, Array) else Array(dtype, shape, parts=item)
        for item, dtype, shape in zip(found, step.dtypes, step.shapes, strict=True)
    ]


def _parts(a: Array) -> Pair:
    return complex_numbers.of_real(a) if a.parts is None else a.parts


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
