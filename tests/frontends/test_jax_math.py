"""Functions of floating-point numbers against JAX, at the edges of their domains as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

import tosa_convert as tc

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")
F32 = np.float32
EDGES = np.array([0, 1e-6, 1e-3, 0.4, 0.6, 1, 10, 88, 1e5, np.inf], F32)
AROUND_ZERO = np.array([-1, -0.999, -0.5, -1e-5, 0, 1e-5, 0.3, 0.7, 0.99, 1], F32)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(7).standard_normal(shape) * scale).astype(F32)


ANY, POSITIVE = normal(4, 6), np.abs(normal(4, 6)) + F32(0.1)
ANYWHERE = (
    *("abs", "asinh", "atan", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1"),
    *("floor", "is_finite", "logistic", "neg", "sign", "sin", "sinh", "square", "tan", "tanh"),
)
FOR_POSITIVE = ("log", "log1p", "rsqrt", "sqrt")
BELOW_ONE = ("acos", "asin", "atanh", "erf_inv")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *((name, ANY) for name in ANYWHERE),
        *((name, POSITIVE) for name in FOR_POSITIVE),
        *((name, np.clip(ANY / 3, -0.95, 0.95)) for name in BELOW_ONE),
        ("acosh", POSITIVE + 1),
    ],
)
def test_a_function_of_lax_agrees(name: str, data: Any) -> None:
    agree(getattr(lax, name), data)


@pytest.mark.parametrize("name", ["sqrt", "log1p", "expm1", "arctan", "sinh", "cosh", "arcsinh"])
def test_zero_infinity_and_small_numbers_agree(name: str) -> None:
    agree(getattr(jnp, name), EDGES)


@pytest.mark.parametrize("name", ["log1p", "expm1", "arctan", "arcsin", "arccos", "arctanh"])
def test_numbers_around_zero_agree(name: str) -> None:
    agree(getattr(jnp, name), AROUND_ZERO)


def test_small_numbers_keep_their_precision() -> None:
    """exp(x) - 1 and log(1 + x) of a small x are x, not 0."""
    small = np.array([1e-7, -3e-6, 2e-5], F32)
    agree(lambda x: (jnp.expm1(x) * 1e6, jnp.log1p(x) * 1e6), small)


def test_the_inverse_error_function_agrees_up_to_its_ends() -> None:
    agree(jax.scipy.special.erfinv, AROUND_ZERO)


@pytest.mark.parametrize("method", ["TO_NEAREST_EVEN", "AWAY_FROM_ZERO"])
def test_rounding_agrees(method: str) -> None:
    data = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 3e8, -1e10, 2.2, -7.7], F32)
    agree(lambda x: lax.round(x, getattr(lax.RoundingMethod, method)), data)


def test_angles_of_every_quadrant_agree() -> None:
    y = np.array([1, -1, 1, -1, 0, 0, 2, 0, 3, -3], F32)
    x = np.array([1, 1, -1, -1, 1, -1, 0, 0, -0.1, -0.1], F32)
    agree(jnp.arctan2, y, x)


#: TOSA does not promise the sign of a zero.
NOT_FINITE = np.array([0, 1, -1, 0.5, -0.5, 2, -3, np.inf, -np.inf, np.nan], F32)


@pytest.mark.parametrize("function", [jnp.arctan2, jnp.power])
def test_infinities_and_nan_of_two_operands_agree(function: Callable[..., Any]) -> None:
    agree(function, np.repeat(NOT_FINITE, 10), np.tile(NOT_FINITE, 10))


@pytest.mark.parametrize(
    "function",
    [
        jnp.cbrt,
        jnp.exp2,
        lambda x: jnp.power(x, jnp.float32(2.3)),
        lambda x: jnp.power(jnp.float32(0.3), x),
        lambda x: jnp.power(jnp.float32(1), x),
    ],
    ids=["cbrt", "exp2", "exponent", "base", "one"],
)
def test_infinities_and_nan_agree(function: Callable[..., Any]) -> None:
    """POW is not defined for them."""
    agree(function, NOT_FINITE)


def test_powers_of_any_sign_agree() -> None:
    base = np.array([2, 3, 0, 0, -2, -2, -2, 5, 1.5, 9], F32)
    exponent = np.array([2.5, -1, 0, 2, 2, 3, 0.5, 0, -3, 0.5], F32)
    agree(jnp.power, base, exponent)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x**2.0,
        lambda x: x**0.5,
        lambda x: x**-0.5,
        lambda x: x**1.7,
        lambda x: 2.0**x,
        lambda x: (x**3, x**-2, x**0),
        lambda x: jnp.power(x, jnp.arange(6)),
    ],
    ids=["square", "root", "inverse root", "real", "of 2", "integer", "array of integers"],
)
def test_powers_by_constants_agree(function: Callable[..., Any]) -> None:
    agree(function, POSITIVE)


def test_quotients_and_remainders_agree() -> None:
    agree(lambda x, y: (x / y, x / 3, 1 / y), ANY, POSITIVE)
    agree(
        lambda x, y: (lax.rem(x, y), jnp.mod(x, y), jnp.fmod(x, 1.5), x // y),
        normal(4, 6, scale=20),
        POSITIVE,
    )


def test_bounds_agree() -> None:
    agree(lambda x: (jnp.clip(x, -0.5, 0.5), lax.clamp(x - 1, x, x + 1), jnp.maximum(x, 0.1)), ANY)


ACTIVATIONS = (
    *("celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh"),
    *("leaky_relu", "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid"),
    *("silu", "soft_sign", "softmax", "softplus", "sparse_plus", "squareplus", "standardize"),
)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_agrees(name: str) -> None:
    agree(getattr(jax.nn, name), ANY, tolerance=1e-4 if name == "standardize" else 1e-5)


def test_the_exact_gelu_agrees() -> None:
    graph = agree(lambda x: jax.nn.gelu(x, approximate=False), ANY)
    assert "ERF" in {operator.spec.name for operator in graph.main.operators}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_narrow_types_agree(dtype: str, tolerance: float) -> None:
    def function(x: Any) -> Any:
        return jax.nn.gelu(x), jnp.expm1(x), x.astype(jnp.float32), x.sum(1), jnp.round(x), x > 0

    agree(function, np.asarray(jnp.asarray(ANY, dtype)), tolerance=tolerance)


def test_narrow_types_are_converted_into_one_another() -> None:
    agree(lambda x: x.astype(jnp.bfloat16).astype(jnp.float16).astype(jnp.float32), ANY)
    agree(lambda x: lax.reduce_precision(x, 8, 7) + lax.reduce_precision(x, 5, 10), ANY)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [0, 1])
def test_triangular_systems_are_solved(lower: bool, transposed: int) -> None:
    def solved(a: Any, b: Any) -> Any:
        options = {"lower": lower, "transpose_a": bool(transposed)}
        left = lax.linalg.triangular_solve(a + 5 * jnp.eye(4), b, left_side=True, **options)
        right = lax.linalg.triangular_solve(a, b.mT, unit_diagonal=True, **options)
        return left, right

    agree(solved, normal(2, 4, 4), normal(2, 4, 3), tolerance=1e-4)


def test_matrices_are_factored() -> None:
    def solved(a: Any, b: Any) -> Any:
        factor = jax.scipy.linalg.cho_factor(a @ a.T + jnp.eye(4))
        return jax.scipy.linalg.cho_solve(factor, b), jnp.linalg.cholesky(a @ a.T - 9 * jnp.eye(4))

    agree(solved, normal(4, 4), normal(4, 3), tolerance=1e-4)


def test_a_matrix_of_many_rows_is_refused() -> None:
    with pytest.raises(tc.TosaConvertError, match="of 65 rows"):
        tc.frontends.from_jax(jnp.linalg.cholesky, (np.eye(65, dtype=F32),))


def test_complex_numbers_are_pairs_inside_of_a_program() -> None:
    def computed(x: Any, y: Any) -> Any:
        z = lax.complex(x, y)
        w = jnp.exp(z) / (z * 1j + 2) - z.conj() ** 2
        joined = jnp.concatenate([z[:, 1:], w.T.reshape(4, 6)], axis=1)
        made = jnp.where(jnp.real(joined) > 0, joined, -joined)
        product = made @ made.T
        return product.real, product.imag, jnp.abs(w), jnp.angle(z), jnp.log(z).imag, z == w, z != z

    agree(computed, normal(4, 6), normal(4, 6)[::-1], tolerance=1e-4)


def test_a_quotient_of_large_complex_numbers_does_not_overflow() -> None:
    def computed(x: Any) -> Any:
        made = lax.complex(x, 2 * x) / lax.complex(-x, x)
        return made.real, made.imag, jnp.abs(lax.complex(x, x))

    agree(computed, np.array([1e30, -3e25, 1e-30, 2], F32))


@pytest.mark.parametrize("length", [6, 7])
def test_fourier_transforms_are_products(length: int) -> None:
    def computed(x: Any) -> Any:
        half = jnp.fft.rfft(x)
        whole = jnp.fft.fft2(x + 1j)
        back = jnp.fft.irfft(half * half.conj(), length)
        again = jnp.fft.ifft2(whole * 2)
        return half.real, half.imag, whole.imag, back, again.real, jnp.fft.irfft2(jnp.fft.rfft2(x))

    agree(computed, normal(3, length), tolerance=1e-4)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: jnp.fft.rfft(jnp.tile(x, 700)).real, "a Fourier transform of length 4200"),
        (lambda x: jnp.sinh(x + 1j).real, "complex numbers, and sinh has them"),
        (lambda x: x + 1j, "result output .*: TOSA does not have the element type complex64"),
    ],
)
def test_other_complex_functions_are_refused(function: Any, words: str) -> None:
    with pytest.raises(tc.TosaConvertError, match=words):
        tc.frontends.from_jax(function, (normal(6),))
