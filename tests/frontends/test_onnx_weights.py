"""Weights of ONNX models that stay in their files: their values, where they may be, and the memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frontends.onnx_models import node, saved

import tosa_convert as tc

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
runtime: Any = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")

Array = npt.NDArray[Any]
#: Where `saved` puts weights.
FORMS: dict[str, dict[str, Any]] = {
    "inside": {},
    "outside": {"save_as_external_data": True, "location": "m.data", "size_threshold": 0},
}
in_both_forms = pytest.mark.parametrize("form", FORMS)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# -- values ----------------------------------------------------------------------------------------


def _sparse(path: Path, places: Any, sizes: list[int]) -> Path:
    """Write the sum of x and a sparse tensor of 1.5 and 2.5."""
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    values = array(np.array([1.5, 2.5], np.float32), "w"), array(np.array(places, np.int64))
    graph = helper.make_graph(
        [node("Add", ["w", "x"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", 1, (2, 3))],
        [helper.make_empty_tensor_value_info("y")],
        sparse_initializer=[helper.make_sparse_tensor(*values, sizes)],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.mark.parametrize("places", [[1, 4], [[0, 1], [1, 1]]])
def test_sparse_weights_are_made_dense(tmp_path: Path, places: Any) -> None:
    graph = tc.frontends.from_onnx(_sparse(tmp_path / "m.onnx", places, [2, 3]))
    (found,) = tc.run(graph, {"x": np.zeros((2, 3), np.float32)}).outputs.values()
    assert found.tolist() == [[0, 1.5, 0], [0, 2.5, 0]]


@pytest.mark.parametrize(
    ("places", "sizes", "what"),
    [
        ([1, 6], [2, 3], "damaged"),
        ([-1, 1], [2, 3], "damaged"),
        ([[0, 1], [1, 3]], [2, 3], "damaged"),
        ([1, 4], [1 << 20, 1 << 20], "4398046511104 bytes"),
        ([1, 4], [-2, 3], "damaged"),
    ],
)
def test_sparse_weights_that_do_not_fit_are_refused(
    tmp_path: Path, places: Any, sizes: list[int], what: str
) -> None:
    with pytest.raises(tc.TosaConvertError, match=what):
        tc.frontends.from_onnx(_sparse(tmp_path / "m.onnx", places, sizes))


@in_both_forms
@pytest.mark.parametrize(
    "kind", ["float32", "float16", "float64", "int8", "int16", "int32", "int64", "bool"]
)
def test_large_weights_of_every_type_have_their_values(
    tmp_path: Path, kind: str, form: str
) -> None:
    weight = (numbers(300, 301) * 50).astype(kind)
    # The name makes the place of the data odd.
    nodes = [node("Where", ["mask", "x", "odd"], ["y"])]
    inputs: dict[str, tuple[Any, list[int | str]]] = {
        "mask": (np.bool_, [300, 301]),
        "x": (np.dtype(kind), [300, 301]),
    }
    path = saved(tmp_path / "m.onnx", nodes, inputs, ["y"], {"odd": weight}, **FORMS[form])
    graph = tc.frontends.from_onnx(path, narrow="i64,f64")
    mask = numbers(300, 301, seed=1) > 0
    x = (numbers(300, 301, seed=2) * 50).astype(kind)
    given = {"float64": np.float32, "int64": np.int32}.get(kind, x.dtype)
    (found,) = tc.run(graph, {"mask": mask, "x": x.astype(given)}).outputs.values()
    expected = np.where(mask, x, weight).astype(given)
    np.testing.assert_array_equal(found.view(expected.dtype), expected)


@in_both_forms
def test_what_onnxruntime_folds_is_read_from_its_model(tmp_path: Path, form: str) -> None:
    channels = 40
    weights = {"w": numbers(channels, channels, 5, 5), "kept": numbers(1, channels, 40, 40)}
    for index, name in enumerate(("scale", "shift", "mean")):
        weights[name] = numbers(channels, seed=index)
    weights["variance"] = numbers(channels) ** 2 + 1
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[2, 2, 2, 2]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        node("Add", ["n", "kept"], ["y"]),
    ]
    inputs: dict[str, tuple[Any, list[int | str]]] = {"x": (np.float32, [1, channels, 40, 40])}
    path = saved(tmp_path / "m.onnx", nodes, inputs, ["y"], weights, **FORMS[form])
    graph = tc.frontends.from_onnx(path)
    assert not any(operator.spec.name == "RSQRT" for operator in graph.main.operators)
    x = numbers(1, channels, 40, 40, seed=9)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    found = tc.run(graph, {"x": x}).outputs["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)


@in_both_forms
def test_a_decomposition_sees_the_values_of_large_weights(tmp_path: Path, form: str) -> None:
    """The steps of quantised weights have to be known."""
    quantised = (numbers(300, 256) * 40).astype(np.int8)
    scale = np.abs(numbers(256)) + 0.1
    nodes = [
        node("DequantizeLinear", ["q", "scale"], ["w"], axis=1),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    inputs: dict[str, tuple[Any, list[int | str]]] = {"x": (np.float32, [2, 300])}
    weights = {"q": quantised, "scale": scale}
    path = saved(tmp_path / "m.onnx", nodes, inputs, ["y"], weights, **FORMS[form])
    x = numbers(2, 300, seed=3)
    found = tc.run(tc.frontends.from_onnx(path), {"x": x}).outputs["y"]
    np.testing.assert_allclose(found, x @ (quantised * scale), rtol=1e-3, atol=1e-2)


@in_both_forms
def test_a_model_of_an_old_operator_set_keeps_its_large_weights(tmp_path: Path, form: str) -> None:
    weight = numbers(200, 100)
    graph = onnx.helper.make_graph(
        [node("Clip", ["x"], ["c"], min=0.0, max=1.0), node("MatMul", ["c", "w"], ["y"])],
        "graph",
        [onnx.helper.make_tensor_value_info("x", 1, (2, 200))],
        [onnx.helper.make_tensor_value_info("y", 1, (2, 100))],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opsets = [onnx.helper.make_opsetid("", 9)]
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), path, **FORMS[form])
    x = numbers(2, 200, seed=4)
    found = tc.run(tc.frontends.from_onnx(path), {"x": x}).outputs["y"]
    np.testing.assert_allclose(found, np.clip(x, 0, 1) @ weight, rtol=1e-3, atol=1e-3)


# -- where the data may be -------------------------------------------------------------------------


def one_product(folder: Path, form: str, weight: Array) -> Path:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    rows = {"x": (np.float32, [2, len(weight)])}
    return saved(folder / "m.onnx", nodes, rows, ["y"], {"w": weight}, **FORMS[form])  # type: ignore[arg-type]


@pytest.mark.parametrize("to_file", [True, False])
@in_both_forms
def test_a_link_to_a_model_is_followed(tmp_path: Path, form: str, to_file: bool) -> None:
    weight = numbers(256, 256)
    (tmp_path / "store").mkdir()
    path = one_product(tmp_path / "store", form, weight)
    link = tmp_path / "link"
    if to_file:
        link.mkdir()
        link = link / "other.onnx"
        link.symlink_to(path)
        if form == "outside":  # The data is looked for beside the link.
            (link.parent / "m.data").write_bytes((path.parent / "m.data").read_bytes())
    else:
        link.symlink_to(path.parent)
        link = link / "m.onnx"
    graph = tc.frontends.from_onnx(link)
    arrays = [data.numpy() for _, data in graph.constants() if data.nbytes == weight.nbytes]
    np.testing.assert_array_equal(np.ravel(arrays), weight.ravel())


def changed(path: Path, **entries: str) -> None:
    """Change what a model says of the external data of its tensor."""
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = entries.get(entry.key, entry.value)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ({"location": "../w.data"}, "unsafe-path"),
        ({"location": "{folder}/w.data"}, "unsafe-path"),
        ({"location": "link.data"}, "unsafe-path"),
        ({"location": "absent.data"}, "missing-data"),
        ({"offset": "4096"}, "missing-data"),
        ({"offset": "-4"}, "missing-data"),
        ({"offset": "1_0"}, "missing-data"),
        ({"offset": "9" * 5000}, "missing-data"),
        ({"length": "x"}, "missing-data"),
    ],
)
def test_external_data_that_is_not_where_it_should_be_is_refused(
    tmp_path: Path, entries: dict[str, str], code: str
) -> None:
    (tmp_path / "model").mkdir()
    path = one_product(tmp_path / "model", "outside", numbers(256, 256))
    data = (tmp_path / "model" / "m.data").read_bytes()
    (tmp_path / "w.data").write_bytes(data)
    (tmp_path / "model" / "link.data").symlink_to(tmp_path / "w.data")
    changed(path, **{key: text.format(folder=tmp_path) for key, text in entries.items()})
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_onnx(path)
    where = "the external data of w" if code == "unsafe-path" else "w"
    assert [(row.code, row.where) for row in caught.value.findings] == [(code, where)]


# -- memory ----------------------------------------------------------------------------------------

#: Prints the largest memory of the command's processes, with the pages of files, in bytes.
_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def peak_of(model: Path, target: Path) -> int:
    """Return the largest memory of a process of a conversion, in bytes."""
    command = [sys.executable, "-m", "tosa_convert", "convert", str(model), "-o", str(target)]
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *command], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def chain(folder: Path, size: int, layers: int) -> tuple[Path, Path]:
    """Return a model of products with external weights, which are written row by row, and their file."""
    folder.mkdir()
    data = folder / "weights.bin"
    random = np.random.default_rng(0)
    with data.open("wb") as file:
        for _ in range(layers * size):
            file.write(random.standard_normal(size, np.float32).data)
    tensors = []
    for index in range(layers):
        kind = onnx.TensorProto
        tensor = kind(name=f"w{index}", data_type=kind.FLOAT, dims=(size, size))
        tensor.data_location = kind.EXTERNAL
        rows = {"location": data.name, "offset": 4 * size * size * index, "length": 4 * size * size}
        for key, value in rows.items():
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
    nodes = [
        node("MatMul", [f"x{index}" if index else "x", f"w{index}"], [f"x{index + 1}"])
        for index in range(layers)
    ]
    nodes[-1].output[0] = "y"
    ports = [onnx.helper.make_tensor_value_info(name, 1, (1, size)) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "graph", ports[:1], ports[1:], tensors)
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = folder / "m.onnx"
    path.write_bytes(onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path, data


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory in other units")
@in_both_forms
def test_a_conversion_holds_the_weights_once(tmp_path: Path, form: str) -> None:
    """Pages of the mapped file count, too."""
    peaks, sizes = [], []
    for size in (64, 2048):
        path, data = chain(tmp_path / str(size), size, layers=6)
        sizes.append(data.stat().st_size)
        if form == "inside":
            onnx.save(onnx.load(path), path)
            data.unlink()
        peaks.append(peak_of(path, tmp_path / "m.tosa"))
    copies = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
    most = {"outside": 1.2, "inside": 2.2}[form]
    assert copies < most


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory in other units")
def test_a_model_over_2_gib_is_converted_without_copies_of_its_weights(tmp_path: Path) -> None:
    size, layers = 8192, 9
    path, data = chain(tmp_path / "model", size, layers)
    total = data.stat().st_size
    assert total == 9 << 28
    target = tmp_path / "m.tosa"
    assert peak_of(path, target) < 1.3 * total
    graph = tc.load(target)
    products = [one for one in graph.main.operators if one.spec.name == "MATMUL"]
    weights = np.memmap(data, np.float32, "r").reshape(layers, size, size)
    for operator, weight in zip(products, weights, strict=True):
        constant = graph.main.tensors[operator.inputs[1]].data
        assert constant is not None
        np.testing.assert_array_equal(constant.numpy().reshape(size, size), weight)
    # The reference model reads one product, and numpy computes it.
    part = tc.extract(graph, outputs=list(products[0].outputs))
    x = numbers(1, size, seed=5)
    (found,) = tc.run(part, {"x": x}).outputs.values()
    np.testing.assert_allclose(found.reshape(1, size), x @ weights[0], rtol=1e-3, atol=1e-2)
    data.unlink()
    os.unlink(target)
