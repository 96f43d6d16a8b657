"""Networks, of plain functions and of flax."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frontends.jax_functions import FUNCTIONS, IMAGE, TOKENS, normal
from frontends.jax_runs import agree, agree_in_turn, jax, lowered, outputs

import tosa_convert as tc

jnp, lax = jax.numpy, jax.lax
pytestmark = pytest.mark.usefixtures("refmodel")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_agrees(name: str) -> None:
    function, args = FUNCTIONS[name]
    agree(function, *args, tolerance=1e-4)


def linen_modules() -> dict[str, tuple[Any, Any]]:
    nn = pytest.importorskip("flax.linen", reason="flax is not installed")

    class Network(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        @nn.compact  # type: ignore[untyped-decorator, unused-ignore]
        def __call__(self, x: Any) -> Any:
            x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(8, (3, 3))(x)))
            x = nn.Conv(16, (3, 3), strides=2)(nn.avg_pool(x, (2, 2), strides=(2, 2)))
            x = nn.max_pool(nn.GroupNorm(4)(x), (3, 3), strides=(2, 2), padding="SAME")
            x = nn.Dropout(0.5, deterministic=True)(nn.Dense(32)(x.reshape(x.shape[0], -1)))
            return nn.log_softmax(nn.Dense(10)(x))

    class Block(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        @nn.compact  # type: ignore[untyped-decorator, unused-ignore]
        def __call__(self, x: Any) -> Any:
            y = nn.LayerNorm()(x)
            mask = nn.make_causal_mask(jnp.ones((2, 8)))
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y, mask=mask)
            return x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))

    return {
        "network": (Network(), IMAGE),
        "transformer block": (Block(), TOKENS),
        "lstm": (nn.RNN(nn.LSTMCell(16)), TOKENS),
        "gru": (nn.RNN(nn.GRUCell(16), reverse=True, keep_order=True), TOKENS),
        "embedding": (nn.Embed(50, 16), np.array([[1, 0, 49], [7, 7, 2]], np.int32)),
    }


@pytest.mark.parametrize("name", ["network", "transformer block", "lstm", "gru", "embedding"])
def test_a_linen_module_agrees(name: str) -> None:
    module, data = linen_modules()[name]
    variables = module.init(jax.random.key(0), data)
    agree(lambda x: module.apply(variables, x), data, tolerance=1e-4)


def test_weights_as_arguments_have_their_paths_as_names() -> None:
    module, data = linen_modules()["network"]
    variables = module.init(jax.random.key(0), data)
    graph = agree(lambda variables, image: module.apply(variables, image), variables, data)
    assert "variables.params.Conv_0.kernel" in graph.main.inputs
    assert graph.main.inputs[-1] == "image"


def test_the_gradient_of_a_linen_module_agrees() -> None:
    module, data = linen_modules()["network"]
    variables = module.init(jax.random.key(0), data)

    def loss(params: Any, x: Any) -> Any:
        return module.apply({**variables, "params": params}, x)[:, 0].mean()

    agree(jax.grad(loss), variables["params"], data, tolerance=1e-4)


def nnx_modules() -> dict[str, tuple[Any, Any]]:
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    rngs = nnx.Rngs(0)

    class Network(nnx.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            self.conv = nnx.Conv(1, 8, (3, 3), rngs=rngs)
            self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
            self.dense = nnx.Linear(8 * 49, 10, rngs=rngs)

        def __call__(self, image: Any) -> Any:
            x = nnx.avg_pool(nnx.relu(self.norm(self.conv(image))), (4, 4), strides=(4, 4))
            return self.dense(x.reshape(x.shape[0], -1))

    sizes = {"num_heads": 4, "in_features": 32, "qkv_features": 32}
    return {
        "network": (Network(), IMAGE),
        "attention": (nnx.MultiHeadAttention(**sizes, decode=False, rngs=rngs), TOKENS),
        "transposed convolution": (nnx.ConvTranspose(1, 4, (3, 3), strides=2, rngs=rngs), IMAGE),
        "sequence": (
            nnx.Sequential(
                nnx.Linear(32, 16, rngs=rngs),
                nnx.gelu,
                nnx.LayerNorm(16, rngs=rngs),
                nnx.RMSNorm(16, rngs=rngs),
            ),
            TOKENS,
        ),
    }


@pytest.mark.parametrize("name", ["network", "attention", "transposed convolution", "sequence"])
def test_an_nnx_module_agrees(name: str) -> None:
    module, data = nnx_modules()[name]
    agree(module, data, tolerance=1e-4)


def test_what_a_call_of_an_nnx_module_changes_is_a_variable() -> None:
    """Batch norm in training: three calls in a row, and the state after them."""
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    module = nnx.BatchNorm(8, momentum=0.5, rngs=nnx.Rngs(0))
    variables = agree_in_turn(module, normal(3, 5, 8))
    assert variables.keys() == {"mean", "var"}
    np.testing.assert_allclose(variables["mean"], np.asarray(module.mean[...]), atol=1e-5)
    np.testing.assert_allclose(variables["var"], np.asarray(module.var[...]), atol=1e-5)


def test_the_cache_of_a_decoder_is_a_variable() -> None:
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    sizes = {"num_heads": 2, "in_features": 8, "qkv_features": 8}
    module = nnx.MultiHeadAttention(**sizes, decode=True, rngs=nnx.Rngs(0))
    module.init_cache((1, 5, 8))
    variables = agree_in_turn(module, normal(4, 1, 1, 8))
    assert variables.keys() == {"cache_index", "cached_key", "cached_value"}
    assert variables["cache_index"] == 4


def test_an_nnx_module_among_the_arguments_is_not_changed() -> None:
    """Its state would be lost. A module that `nnx.jit` returns as it is, is not changed."""
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    data = normal(3, 5, 8)
    norm = nnx.BatchNorm(8, rngs=nnx.Rngs(0))
    with pytest.raises(tc.TosaConvertError, match=r"its arguments: norm\.mean, norm\.var"):
        tc.frontends.from_jax(lambda norm, x: norm(x), (norm, data))
    norm.eval()
    graph = lowered(nnx.jit(lambda norm, x: norm(x)), norm, data)
    assert graph.main.inputs[-1] == "x"
    (found,) = outputs(graph, norm, data).values()
    np.testing.assert_allclose(found, np.asarray(norm(data)), atol=1e-5)


def test_a_counter_of_random_draws_is_not_a_variable() -> None:
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    recurrent = nnx.RNN(nnx.LSTMCell(32, 16, rngs=nnx.Rngs(0)))
    agree_once(recurrent, TOKENS)
    dropout = nnx.Dropout(0.5, deterministic=False, rngs=nnx.Rngs(0))
    with pytest.raises(tc.TosaConvertError, match="random") as caught:
        lowered(dropout, TOKENS)
    assert caught.value.code == "not-lowered"


def agree_once(module: Any, data: Any) -> None:
    """A module that a trace cannot change is called, not traced."""
    graph = lowered(module, data)
    (found,) = outputs(graph, data).values()
    np.testing.assert_allclose(found, np.asarray(module(data)), rtol=1e-4, atol=1e-4)
