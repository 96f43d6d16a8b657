"""Products of matrices, convolutions and pooling, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")
RANDOM = np.random.default_rng(21)


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def integers(dtype: str, *shape: int) -> Any:
    low, high = (0, 255) if dtype.startswith("u") else (-100, 100)
    return RANDOM.integers(low, high, shape).astype(dtype)


A, B, C, IMAGE = normal(4, 6, 5), normal(5, 7), normal(4, 6, 5), normal(2, 9, 10, 6)
PRODUCTS: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b, c: a @ b,
    "batch": lambda a, b, c: jnp.einsum("bij,bkj->bik", a, c),
    "inner": lambda a, b, c: (jnp.einsum("bij,bij->b", a, c), jnp.vdot(a, c)),
    "outer": lambda a, b, c: (jnp.outer(a[0, 0], b[0]), jnp.kron(b, b)),
    "tensordot": lambda a, b, c: jnp.tensordot(a, b, ((2,), (0,))),
    "two axes": lambda a, b, c: jnp.tensordot(a, c, ((1, 2), (1, 2))),
    "einsum of three": lambda a, b, c: jnp.einsum("bij,jk,bik->b", a, b, a @ b),
    "vectors": lambda a, b, c: (jnp.dot(a[0, 0], b), b.T @ c[0, 0], jnp.dot(a[0, 0], c[1, 1])),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_agrees(name: str) -> None:
    agree(PRODUCTS[name], A, B, C, tolerance=1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-2), ("bfloat16", 5e-2)])
def test_narrow_products_agree(dtype: str, tolerance: float) -> None:
    a, b = np.asarray(jnp.asarray(A, dtype)), np.asarray(jnp.asarray(B, dtype))
    wide = jnp.float32
    agree(
        lambda a, b: (a @ b, lax.dot_general(a, b, (((2,), (0,)), ((), ())), None, wide)),
        a,
        b,
        tolerance=tolerance,
    )


@pytest.mark.parametrize("left", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
def test_products_of_integers_are_exact(left: str, right: str) -> None:
    a, b = integers(left, 4, 8), integers(right, 8, 3)
    agree(lambda a: lax.dot(a, b, preferred_element_type=jnp.int32), a)
    graph = agree(lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), a, b)
    names = {operator.spec.name for operator in graph.main.operators}
    assert ("MATMUL" in names) is left.endswith("int8")


def test_products_that_stay_int8_wrap_around() -> None:
    agree(lax.dot, integers("int8", 4, 8), integers("int8", 8, 3))


def test_a_product_of_different_types_agrees() -> None:
    numbers, wide = (((1,), (0,)), ((), ())), jnp.float32
    agree(
        lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type=wide),
        normal(4, 8),
        integers("int8", 8, 3),
        tolerance=1e-3,
    )


# -- convolutions --------------------------------------------------------------------------------

NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
CONVOLUTIONS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "same": (IMAGE, normal(3, 3, 6, 8), {}),
    "strides": (IMAGE, normal(3, 3, 6, 8), {"window_strides": (2, 3), "padding": "VALID"}),
    "dilation": (IMAGE, normal(3, 3, 6, 8), {"rhs_dilation": (2, 3), "padding": "VALID"}),
    "negative padding": (IMAGE, normal(3, 3, 6, 8), {"padding": ((-1, 2), (0, -2))}),
    "depthwise": (IMAGE, normal(3, 3, 1, 12), {"feature_group_count": 6, "window_strides": (2, 2)}),
    "feature groups": (IMAGE, normal(3, 3, 3, 8), {"feature_group_count": 2}),
    "batch groups": (IMAGE, normal(3, 3, 6, 8), {"batch_group_count": 2}),
    "inserted zeros": (
        *(IMAGE, normal(3, 3, 6, 8)),
        {"lhs_dilation": (2, 2), "padding": ((2, 1), (1, 2))},
    ),
    "much padding": (
        *(IMAGE, normal(3, 4, 6, 8)),
        {"lhs_dilation": (2, 3), "padding": ((5, 1), (1, 7))},
    ),
    "both dilations": (
        *(IMAGE, normal(3, 3, 6, 8)),
        {"lhs_dilation": (2, 2), "rhs_dilation": (2, 1), "window_strides": (2, 1)}
        | {"padding": ((2, 1), (1, 2))},
    ),
    "channels first": (
        *(IMAGE.transpose(0, 3, 1, 2), normal(8, 6, 3, 2)),
        {"dimension_numbers": NCHW, "window_strides": (2, 3), "padding": ((1, 2), (0, 1))},
    ),
    "batch last": (
        *(IMAGE.transpose(1, 2, 0, 3), normal(8, 3, 2, 6)),
        {"dimension_numbers": ("HWNC", "OHWI", "CNHW"), "window_strides": (2, 1)},
    ),
    "one dimension": (
        *(normal(2, 9, 6), normal(3, 6, 4)),
        {"dimension_numbers": ("NWC", "WIO", "NWC"), "window_strides": (2,)},
    ),
    "three dimensions": (
        *(normal(1, 5, 6, 7, 3), normal(3, 3, 3, 3, 4)),
        {"dimension_numbers": ("NDHWC", "DHWIO", "NDHWC"), "window_strides": (1, 2, 1)},
    ),
    "three dimensions, groups": (
        *(normal(1, 5, 6, 7, 3), normal(3, 3, 3, 1, 6)),
        {"dimension_numbers": ("NDHWC", "DHWIO", "NDHWC"), "window_strides": (1, 2, 1)}
        | {"lhs_dilation": (2, 1, 1), "feature_group_count": 3}
        | {"padding": ((0, 0), (1, 1), (0, 0))},
    ),
}


def convolution(options: dict[str, Any]) -> Callable[..., Any]:
    count = len(options.get("dimension_numbers", NHWC)[0]) - 2
    given = {"window_strides": (1,) * count, "padding": "SAME", "dimension_numbers": NHWC}
    return lambda x, weight: lax.conv_general_dilated(x, weight, **{**given, **options})


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "argument"])
def test_a_convolution_agrees(name: str, is_constant: bool) -> None:
    image, weight, options = CONVOLUTIONS[name]
    function = convolution(options)
    if is_constant:
        agree(lambda x: function(x, weight), image, tolerance=1e-4)
    else:
        agree(function, image, weight, tolerance=1e-4)


def test_convolutions_of_a_batch_of_filters_agree() -> None:
    agree(jax.vmap(convolution({})), normal(3, 1, 5, 5, 2), normal(3, 3, 3, 2, 4), tolerance=1e-4)


def test_a_transposed_convolution_is_an_operator() -> None:
    graph = agree(
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        IMAGE,
        normal(3, 3, 6, 8),
        tolerance=1e-4,
    )
    assert "TRANSPOSE_CONV2D" in {operator.spec.name for operator in graph.main.operators}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_convolution_of_bytes_is_exact(dtype: str) -> None:
    function = convolution({"preferred_element_type": jnp.int32})
    agree(function, integers(dtype, 1, 6, 6, 3), integers(dtype, 3, 3, 3, 4))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-2), ("bfloat16", 3e-1)])
def test_a_narrow_convolution_agrees(dtype: str, tolerance: float) -> None:
    image, weight = (np.asarray(jnp.asarray(x, dtype)) for x in (IMAGE, normal(3, 3, 6, 8)))
    agree(convolution({}), image, weight, tolerance=tolerance)


@pytest.mark.parametrize("name", ["strides", "depthwise", "dilation"])
def test_the_gradient_of_a_convolution_agrees(name: str) -> None:
    image, weight, options = CONVOLUTIONS[name]
    function = convolution(options)
    gradient = jax.grad(lambda x, w: (function(x, w) ** 2).mean(), (0, 1))
    agree(gradient, image, weight, tolerance=1e-4)


# -- windows -------------------------------------------------------------------------------------

WINDOWS: dict[str, tuple[Any, Any, tuple[int, ...], tuple[int, ...], str, dict[str, Any]]] = {
    "max": (lax.max, -np.inf, (1, 3, 3, 1), (1, 2, 2, 1), "SAME", {}),
    "min": (lax.min, np.inf, (1, 3, 3, 1), (1, 2, 2, 1), "SAME", {}),
    "sum": (lax.add, 0.0, (1, 3, 3, 1), (1, 2, 2, 1), "SAME", {}),
    "channels": (lax.max, -np.inf, (1, 1, 2, 3), (1, 1, 2, 2), "VALID", {}),
    "all axes": (lax.add, 0.0, (2, 3, 2, 2), (1, 2, 1, 1), "SAME", {}),
    "one axis": (lax.max, -np.inf, (1, 3, 1, 1), (1, 2, 1, 1), "SAME", {}),
    "dilation": (
        *(lax.max, -np.inf, (1, 2, 2, 1), (1, 1, 1, 1), "VALID"),
        {"window_dilation": (1, 2, 3, 1), "base_dilation": (1, 2, 1, 1)},
    ),
    "own function": (lambda a, b: a * b, np.float32(1), (1, 2, 2, 1), (1, 2, 2, 1), "VALID", {}),
    "initial value": (lax.max, np.float32(0.5), (1, 2, 2, 1), (1, 2, 2, 1), "SAME", {}),
}


def windows(name: str) -> Callable[..., Any]:
    function, initial, size, strides, padding, options = WINDOWS[name]
    return lambda x: lax.reduce_window(x, initial, function, size, strides, padding, **options)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_agree(name: str) -> None:
    agree(windows(name), IMAGE, tolerance=1e-4)


@pytest.mark.parametrize(("dtype", "word"), [("int32", "max"), ("uint8", "add"), ("int8", "max")])
def test_windows_of_integers_are_exact(dtype: str, word: str) -> None:
    initial = np.array(0 if word == "add" else np.iinfo(dtype).min, dtype)
    size = (1, 2, 2, 1)
    agree(
        lambda x: lax.reduce_window(x, initial, getattr(lax, word), size, size, "VALID"),
        integers(dtype, 1, 6, 6, 2),
    )


@pytest.mark.parametrize("name", ["max", "min", "sum", "channels"])
def test_the_gradient_of_windows_agrees(name: str) -> None:
    function = windows(name)
    agree(jax.grad(lambda x: (function(x) ** 2).sum()), IMAGE, tolerance=1e-4)


def test_equal_elements_of_a_window_get_the_gradient_once() -> None:
    data = np.ones((1, 4, 4, 1), np.float32)
    agree(jax.grad(lambda x: windows("max")(x).sum()), data)
