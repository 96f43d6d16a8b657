"""Functions of JAX through TFLite, by litert-converter; the programs are compared with JAX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.jax_functions import FUNCTIONS
from frontends.jax_runs import agree, jax, lowered

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

for package in ("litert_converter", "tosa_converter_for_tflite"):
    pytest.importorskip(package, reason=f"{package} is not installed")

jnp = jax.numpy
pytestmark = pytest.mark.usefixtures("refmodel")
VIA = "litert-converter"
#: Functions whose loops litert-converter cannot write.
LOOPS = {"scan", "long scan"}
NUMBERS = np.linspace(0.5, 3, 8, dtype=np.float32)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - LOOPS))
def test_a_function_agrees(name: str) -> None:
    function, args = FUNCTIONS[name]
    agree(function, *args, tolerance=1e-4, via=VIA)


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_loop_is_named(name: str) -> None:
    function, args = FUNCTIONS[name]
    with pytest.raises(tc.TosaConvertError, match="cannot write a loop") as caught:
        lowered(function, *args, via=VIA)
    (finding,) = caught.value.findings
    assert finding.code == "not-lowered"
    assert "unroll=True" in finding.hint


@pytest.mark.parametrize(
    "function",
    [
        *(jax.lax.lgamma, jax.lax.digamma, jax.lax.bessel_i0e, jax.lax.bessel_i1e),
        lambda x: jax.lax.polygamma(jnp.ones_like(x), x),
        lambda x: jax.lax.zeta(x + 1, x),
    ],
)
def test_special_functions_lower_here_and_the_other_route_says_so(
    function: Callable[[Any], Any],
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        lowered(function, NUMBERS)
    assert all("--via litert-converter" in finding.hint for finding in caught.value.findings)
    agree(function, NUMBERS, via=VIA)


def test_names_and_order_are_those_of_the_function() -> None:
    def swapped(b: Any, a: Any, unused: Any, scale: Any) -> Any:
        return {"z": a * scale, "c": [b + 1, b], "same": a, "constant": jnp.ones(3)}

    args = (np.ones((3,), np.float32), NUMBERS, np.ones((2,), np.int32), np.float32(2))
    graph = agree(swapped, *args, via=VIA)
    assert graph.main.inputs == ["b", "a", "unused", "scale"]
    assert graph.main.outputs[:2] == ["c.0", "c.1"]
    assert lowered(swapped, *args, via=VIA, names=list("wxyz")).main.inputs == list("wxyz")


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_positions_out_of_range_are_those_of_jax(mode: str) -> None:
    """litert-converter writes GATHER without bounds, and TFLite leaves such positions open."""

    def rows(table: Any, index: Any, single: Any) -> Any:
        taken = jnp.take(table, index, axis=0, mode=mode)
        return taken, table.at[index, index].get(mode=mode), jnp.take(table, single, 1, mode=mode)

    table = np.arange(30, dtype=np.float32).reshape(6, 5)
    index = np.array([[5, -3], [99, 6], [-99, 0]], np.int32)
    agree(rows, table, index, np.int32(-7), via=VIA)
    agree(lambda x, at: x[at], table, np.array([3, 200], np.uint8), via=VIA)


def test_locations_have_scopes_and_lines() -> None:
    def scores(x: Any) -> Any:
        with jax.named_scope("head"):
            return jnp.tanh(x) * 3

    line = scores.__code__.co_firstlineno + 2
    for full, file in ((False, Path(__file__).name), (True, __file__)):
        graph = lowered(scores, NUMBERS, via=VIA, full_paths=full)
        found = {operator.location for operator in graph.main.operators}
        assert f'loc("head/tanh"("{file}":{line}:0))' in found


def test_a_module_of_nnx_is_constant_and_a_state_is_named() -> None:
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    data = np.ones((2, 8), np.float32)
    layer = nnx.Linear(8, 4, rngs=nnx.Rngs(0))
    graph = lowered(layer, data, via=VIA)
    (found,) = tc.run(graph, {graph.main.inputs[0]: data}).outputs.values()
    np.testing.assert_allclose(found, np.asarray(layer(data)), rtol=1e-4, atol=1e-5)
    with pytest.raises(tc.TosaConvertError, match="a call changes it") as caught:
        lowered(nnx.BatchNorm(8, rngs=nnx.Rngs(0)), data, via=VIA)
    assert [finding.message.split()[0] for finding in caught.value.findings] == ["mean", "var"]


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.astype(jnp.int32) & 3, "tf.BitwiseAnd"),
        (lambda x: x.astype(jnp.bfloat16) * x.astype(jnp.bfloat16), "tfl."),
        (lambda x: jnp.linalg.cholesky(x[None] * jnp.eye(8)), "stablehlo.custom_call of lapack"),
        (lambda x: jnp.sort(x), "stablehlo.sort"),
        (lambda x: jnp.abs(jnp.fft.fft(x)), "stablehlo.fft"),
        (lambda x: jnp.abs(jnp.fft.rfft(x)), "RFFT2D"),  # The converter of TFLite fails with it.
    ],
)
def test_what_does_not_lower_is_named_with_its_line(
    function: Callable[[Any], Any], operator: str
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        lowered(function, NUMBERS, via=VIA)
    finding = caught.value.findings[0]
    assert (finding.code, finding.message.startswith(operator)) == ("not-lowered", True)
    assert f"{__file__}:{function.__code__.co_firstlineno}" in finding.where
    assert "--via litert-converter" in finding.hint


FILE = """
import jax
import jax.numpy as jnp


def factory():
    def gamma(x, weights):
        return {"y": jax.scipy.special.gammaln(x) + weights["b"] - weights["a"]}

    return gamma, (jnp.arange(1.0, 9.0), {"b": jnp.arange(8.0), "a": jnp.float32(2)})
"""


def test_the_command_line_converts_and_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, made = tmp_path / "net.py", tmp_path / "m.tosa"
    source.write_text(FILE, encoding="utf-8")
    words = [f"{source}:factory", "-o", str(made), "--check"]
    assert run(verb("convert"), words) == 4
    assert "--via litert-converter" in capsys.readouterr().err
    assert run(verb("convert"), [*words, "--via", VIA]) == 0
    assert "ok   y float32[8]" in capsys.readouterr().out
    graph = tc.load(made)
    assert graph.main.inputs == ["x", "weights.a", "weights.b"]
    again = [*words, "--via", VIA, "--input-shape", "x=2x8"]
    assert run(verb("convert"), again) == 0
    assert tc.load(made).main.tensors["y"].shape == (2, 8)
