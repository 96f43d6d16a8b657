"""Functions of complex numbers, as pairs, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import F32, known, names, program, results

from tosa_convert.frontends.lowering import complex_numbers as pairs
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope

RNG = np.random.default_rng(9)
X, Y = (RNG.normal(size=(3, 6)) + 1j * RNG.normal(size=(3, 6)) for _ in range(2))
X, Y = X.astype(np.complex64), Y.astype(np.complex64)
HALF = np.fft.rfft(X.real)

#: A function of pairs, the complex numbers, and what numpy returns.
ROWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "product": (pairs.mul, (X, Y), X * Y),
    "quotient": (pairs.divided, (X, Y), X / Y),
    "large quotient": (pairs.divided, (X * F32(1e30), Y * F32(1e30)), X / Y),
    "conjugate": (pairs.conjugate, (X,), X.conj()),
    "power": (partial(pairs.integer_power, exponent=3), (X,), X**3),
    "equal": (pairs.equals, (X, np.where(X.real > 0, X, Y)), X.real > 0),
    "magnitude": (pairs.magnitude, (X * F32(1e25),), np.abs(X) * F32(1e25)),
    "angle": (pairs.angle, (X,), np.angle(X)),
    "exponential": (pairs.exponential, (X,), np.exp(X)),
    "logarithm": (pairs.logarithm, (X,), np.log(X)),
    "transform": (partial(pairs.transformed, axes=[-1]), (X,), np.fft.fft(X)),
    "inverse": (
        partial(pairs.transformed, axes=[0, 1], is_inverse=True),
        (X,),
        np.fft.ifft2(X),
    ),
    "transform of real numbers": (
        lambda s, x: pairs.transformed(s, pairs.of_real(x[0]), [0]),
        (X,),
        np.fft.fft(X.real, axis=0),
    ),
    "half": (lambda s, x: pairs.transformed_real(s, x[0], 1), (X,), HALF),
    "from half": (
        partial(pairs.real_from_half, axis=1, length=6),
        (HALF.astype(np.complex64),),
        X.real,
    ),
    "from half of an odd length": (
        partial(pairs.real_from_half, axis=1, length=5),
        (np.fft.rfft(X.real[:, :5]).astype(np.complex64),),
        X.real[:, :5],
    ),
}


def of_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of real and imaginary parts in turn."""

    def called(s: Scope, *parts: Array) -> Any:
        return function(s, *zip(parts[::2], parts[1::2], strict=True))

    return called


@pytest.mark.parametrize("name", ROWS)
def test_pairs_have_what_numpy_computes(name: str) -> None:
    function, data, want = ROWS[name]
    parts = [part.copy() for item in data for part in (item.real, item.imag)]
    found = results(of_parts(function), *parts)
    expected = [want.real, want.imag] if np.iscomplexobj(want) else [want]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_constants_are_computed_at_once() -> None:
    found = known(lambda s, a, b: pairs.mul(s, (a, b), (b, a))[1], X.real, X.imag)
    np.testing.assert_allclose(found, (X.real**2 + X.imag**2), rtol=1e-6)


def test_real_numbers_take_half_of_the_products() -> None:
    graph = program(lambda s, x: pairs.transformed(s, pairs.of_real(x), [1]), X.real.copy())
    assert names(graph)["MATMUL"] == 2
    assert "SUB" not in names(graph)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (partial(pairs.integer_power, exponent=9), "to the power of 9"),
        (partial(pairs.transformed, axes=[0]), "of length 4096"),
    ],
)
def test_what_would_be_too_large_is_refused(function: Any, words: str) -> None:
    part = np.ones((4096, 1), F32)
    with pytest.raises(NotLowered, match=words):
        results(of_parts(function), part, part)
