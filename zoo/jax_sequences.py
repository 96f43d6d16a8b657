"""Networks in JAX of sequences without attention to all places: recurrent, convolutional, states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jax_layers import Array, Case, Weights, network, numbers, values


def make_lstm() -> Case:
    """An LSTM (Hochreiter, Schmidhuber, 1997)."""

    def lstm(tokens: Array) -> dict[str, Array]:
        x = nn.Embed(30, 12)(tokens)
        x = nn.RNN(nn.OptimizedLSTMCell(16))(x)
        (cell, hidden), _ = nn.RNN(nn.LSTMCell(16), return_carry=True)(x)
        return {"classes": nn.Dense(3)(hidden), "cell": cell}

    return network(lstm, numbers(30, 2, 8))


def make_gru() -> Case:
    """A GRU (Cho and others, 2014): both directions, and an answer at each step."""

    def gru(x: Array) -> Array:
        both = nn.Bidirectional(nn.RNN(nn.GRUCell(12)), nn.RNN(nn.GRUCell(12)))(x)
        return nn.Dense(4)(both)

    return network(gru, values(2, 8, 6))


def make_long_gru() -> Case:
    """A GRU (Cho and others, 2014) over so many steps that they stay a loop."""
    weights = Weights()
    into, own = weights.kernel(4, 24), weights.kernel(8, 24)
    shift = weights.bias(24)

    def gru(steps: Array) -> Array:
        def step(state: Array, x: Array) -> tuple[Array, Array]:
            reset, update, new = jnp.split(x @ into + shift, 3)
            old_reset, old_update, old_new = jnp.split(state @ own, 3)
            update = jax.nn.sigmoid(update + old_update)
            new = jnp.tanh(new + jax.nn.sigmoid(reset + old_reset) * old_new)
            state = (1 - update) * new + update * state
            return state, state.sum()

        return lax.scan(step, jnp.zeros(8), steps)[1]

    return gru, (values(200, 4),)


class TcnBlock(nn.Module):
    """Two causal convolutions with weight normalization, and a shortcut."""

    width: int
    rate: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = x
        for _ in range(2):
            causal = nn.Conv(self.width, (3,), padding="CAUSAL", kernel_dilation=self.rate)
            y = nn.relu(nn.WeightNorm(causal)(y))
        return nn.relu(y + (x if x.shape == y.shape else nn.Conv(self.width, (1,))(x)))


def make_tcn() -> Case:
    """A TCN (Bai, Kolter, Koltun, 2018)."""

    def tcn(x: Array) -> Array:
        for rate in (1, 2, 4):
            x = TcnBlock(12, rate)(x)
        return nn.Conv(5, (1,))(x)

    return network(tcn, values(1, 32, 4))


class MambaBlock(nn.Module):
    """A selective state space: what is kept and taken depends on the input."""

    inner: int = 16
    states: int = 4
    rank: int = 2

    @nn.compact
    def __call__(self, x: Array) -> Array:
        made = nn.Dense(2 * self.inner, use_bias=False)(nn.LayerNorm()(x))
        value, gate = jnp.split(made, 2, -1)
        causal = nn.Conv(self.inner, (4,), padding="CAUSAL", feature_group_count=self.inner)
        value = nn.silu(causal(value))
        selected = nn.Dense(self.rank + 2 * self.states, use_bias=False)(value)
        rank, into, out = jnp.split(selected, [self.rank, self.rank + self.states], -1)
        step = nn.softplus(nn.Dense(self.inner)(rank))
        decay = self.param("decay", nn.initializers.ones, (self.inner, self.states))
        kept = jnp.exp(step[..., None] * -jnp.exp(decay))
        taken = (step * value)[..., None] * into[:, :, None, :]

        def combine(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
            return left[0] * right[0], right[0] * left[1] + right[1]

        _, states = lax.associative_scan(combine, (kept, taken), axis=1)
        y = (states * out[:, :, None, :]).sum(-1)
        y = y + value * self.param("scale", nn.initializers.ones, (self.inner,))
        return x + nn.Dense(x.shape[-1], use_bias=False)(y * nn.silu(gate))


def make_mamba() -> Case:
    """Mamba (Gu, Dao, 2023), with its scan in a logarithmic number of steps."""

    def mamba(tokens: Array) -> Array:
        x = nn.Embed(20, 12)(tokens)
        for _ in range(2):
            x = MambaBlock()(x)
        return nn.Dense(20)(nn.LayerNorm()(x))

    return network(mamba, numbers(20, 1, 8))


def make_linear_attention() -> Case:
    """Linear attention (Katharopoulos and others, 2020)."""
    weights = Weights()
    layers = [(weights.kernel(16, 48), weights.kernel(16, 16), weights.scale(16)) for _ in range(2)]
    last = weights.kernel(16, 8)

    def attention(x: Array) -> Array:
        for into, out, scale in layers:
            y = jax.nn.standardize(x) * scale
            q, k, v = jnp.split((y @ into).reshape(*x.shape[:2], 6, 8), 3, 2)
            q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
            state = jnp.cumsum(jnp.einsum("nlhd,nlhm->nlhdm", k, v), 1)
            total = jnp.einsum("nlhd,nlhd->nlh", q, jnp.cumsum(k, 1))
            y = jnp.einsum("nlhd,nlhdm->nlhm", q, state) / (total + 1e-6)[..., None]
            x = x + y.reshape(x.shape) @ out
        return x @ last

    return attention, (values(1, 10, 16),)


class Decoder(nn.Module):
    """One step: attends to the encoder's states by its own, and says the next word."""

    words: int

    @nn.compact
    def __call__(self, hidden: Array, word: Array, states: Array) -> tuple[Array, Array]:
        width = states.shape[-1]
        keys = nn.Dense(width, use_bias=False, name="keys")(states)
        query = nn.Dense(width, use_bias=False, name="query")(hidden)[:, None]
        energy = nn.Dense(1, use_bias=False, name="score")(nn.tanh(keys + query))
        context = (nn.softmax(energy, 1) * states).sum(1)
        hidden, _ = nn.GRUCell(width)(hidden, jnp.concatenate([word, context], -1))
        return hidden, nn.Dense(self.words)(jnp.concatenate([hidden, context], -1))


def make_attention_seq2seq() -> Case:
    """Translation with additive attention (Bahdanau, Cho, Bengio, 2014)."""

    def translate(source: Array, target: Array) -> Array:
        words = nn.Embed(20, 12)
        hidden, states = nn.RNN(nn.GRUCell(12), return_carry=True)(words(source))
        steps = nn.scan(
            Decoder,
            variable_broadcast="params",
            split_rngs={"params": False},
            in_axes=(1, nn.broadcast),
            out_axes=1,
        )
        return steps(20)(hidden, words(target), states)[1]

    return network(translate, numbers(20, 2, 6), numbers(20, 2, 4))
