from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tosa_convert import api, golden
from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.model import Graph

X = np.random.default_rng(2).normal(size=(1, 4, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def layers() -> Graph:
    """Make two products, TANH between them, and the index of the largest."""
    weights = np.random.default_rng(1).normal(size=(2, 1, 16, 16)).astype(np.float32)
    b = Builder("layers")
    hidden = b.tanh(b.matmul(b.input("x", "fp32", X.shape), weights[0]))
    z = b.matmul(hidden, weights[1])
    b.output(z, name="z")
    b.output(b.argmax(z, axis=2, dtype="int32"), name="top")
    return b.graph()


@pytest.fixture(scope="module")
def right(layers: Graph) -> dict[str, Any]:
    return dict(golden.run(layers, {"x": X}, engine="numpy").outputs)


def test_results_are_close_by_name_by_order_and_of_a_file(
    layers: Graph, right: dict[str, Any], tmp_path: Path
) -> None:
    golden.assert_close(right, layers, {"x": X}, engine="numpy")
    golden.assert_close(tuple(right.values()), layers, [X], engine="numpy")
    api.save(layers, tmp_path / "layers.tosa")
    golden.assert_close(right, tmp_path / "layers.tosa", [X], engine="numpy")


def test_another_order_of_the_sums_is_close(layers: Graph, right: dict[str, Any]) -> None:
    wide = golden.run(layers, {"x": X}, precise=True, engine="numpy").outputs["z"]
    found = np.asarray(wide, np.float32)
    assert not np.array_equal(found, right["z"])
    golden.assert_close({**right, "z": found}, layers, [X], engine="numpy")


def test_the_message_names_tensor_element_bound_and_operator(
    layers: Graph, right: dict[str, Any]
) -> None:
    wrong = {name: array.copy() for name, array in right.items()}
    wrong["z"][0, 1, 3] = 9
    wrong["top"][0, 2] += 1
    with pytest.raises(AssertionError) as caught:
        golden.assert_close(wrong, layers, [X], engine="numpy")
    text = str(caught.value)
    assert text.startswith("2 of 2 outputs of Graph are wrong:\n  z float32[1, 4, 16]: 1 of 64 ")
    assert "    at [0, 1, 3]: found 9.0, expected " in text
    assert " off, allowed " in text
    assert "[network, 6 times the measured error]" in text
    assert "computed by operator #5 MATMUL" in text
    assert "  top int32[1, 4]: 1 of 4 elements too far off\n    at [0, 2]: found " in text


def test_a_missing_output_and_another_shape_are_wrong(layers: Graph, right: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="1 of 2 outputs of Graph is wrong:\n  top: no array"):
        golden.assert_close({"z": right["z"]}, layers, [X], engine="numpy")
    with pytest.raises(AssertionError, match=r"expected shape \[1, 4, 16\], found \[1, 4, 15\]"):
        golden.assert_close([right["z"][..., :-1], right["top"]], layers, [X], engine="numpy")


@pytest.mark.parametrize(
    ("found", "inputs", "expected"),
    [
        ([X, X, X], [X], "found 3 arrays, expected 2: z, top"),
        ([X, X], [X, X], "found 2 arrays, expected 1: x"),
        ([X, {"a": X}], [X], "found dict, expected an array"),
        ([X, X], {"y": X}, "there is no such input"),
        ([X, X], [X[:, :3]], r"found shape \[1, 3, 16\]"),
        ([X, X], [X.astype(np.float64)], "found float64"),
    ],
)
def test_arrays_that_the_model_does_not_have_are_refused(
    layers: Graph, found: Any, inputs: Any, expected: str
) -> None:
    with pytest.raises(TosaConvertError, match=expected) as caught:
        golden.assert_close(found, layers, inputs, engine="numpy")
    assert caught.value.code == "input-mismatch"


def test_a_given_tolerance_takes_the_place_of_the_rule(
    layers: Graph, right: dict[str, Any]
) -> None:
    wrong = {**right, "z": right["z"] + np.float32(1e-3)}
    loose = golden.Tolerances(atol=(("z", 1e-2),))
    golden.assert_close(wrong, layers, [X], tolerances=loose, engine="numpy")
    bound = golden.tolerance(layers, [X], tolerances=loose, engine="numpy")["z"]
    assert bound.error.min() >= 1e-2


def test_bounds_admit_what_is_right_and_little_more(layers: Graph, right: dict[str, Any]) -> None:
    bounds = golden.tolerance(layers, [X], engine="numpy")
    for name, bound in bounds.items():
        assert bound.error.shape == right[name].shape
        assert (np.abs(right[name] - bound.expected) <= bound.error).all()
    assert bounds["z"].error.max() < 1e-3
    assert not bounds["top"].error.any()


def test_a_bound_of_a_tenth_of_the_values_warns_or_fails() -> None:
    b = Builder("difference")
    x = b.input("x", "fp16", (1, 8))
    b.output(b.sub(b.exp(b.add(b.exp(x), 1.0)), b.exp(b.add(b.exp(x), 0.999))), name="y")
    inputs = {"x": np.linspace(0, 1, 8, dtype=np.float16).reshape(1, 8)}
    found = golden.run(b.graph(), inputs, precise=True, engine="numpy").outputs["y"]
    with pytest.warns(UserWarning, match="y: low precision: it may err by"):
        golden.assert_close([found], b.graph(), inputs, engine="numpy")
    with pytest.raises(AssertionError, match="low precision"):
        golden.assert_close([found], b.graph(), inputs, strict=True, engine="numpy")


def test_a_function_of_a_framework_is_told_from_programs() -> None:
    from tosa_convert.golden.models.assert_close import _framework_of

    class Module:
        __module__ = "torch.nn.modules.module"

    class Net(Module):
        pass

    assert _framework_of(Net()) == "torch"
    assert _framework_of(lambda x: x) == "jax"
    assert _framework_of("model.tosa") == _framework_of(b"TOSA") == ""
