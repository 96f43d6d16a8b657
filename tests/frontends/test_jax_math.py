"""Small numbers, matrices and complex numbers against JAX; test_matrix.py has single functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

import tosa_convert as tc

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")
F32 = np.float32
AROUND_ZERO = np.array([-1, -0.999, -0.5, -1e-5, 0, 1e-5, 0.3, 0.7, 0.99, 1], F32)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(7).standard_normal(shape) * scale).astype(F32)


def test_small_numbers_keep_their_precision() -> None:
    """exp(x) - 1 and log(1 + x) of a small x are x, not 0."""
    small = np.array([1e-7, -3e-6, 2e-5], F32)
    agree(lambda x: (jnp.expm1(x) * 1e6, jnp.log1p(x) * 1e6), small)


def test_the_inverse_error_function_agrees_up_to_its_ends() -> None:
    agree(jax.scipy.special.erfinv, AROUND_ZERO)


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
