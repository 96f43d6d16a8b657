"""Programs are loaded from anything with bytes, and written to bytes and modules in memory."""

from __future__ import annotations

import array
import io
import mmap
import os
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.building import branching, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.formats import read as reading
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.io.options import ReadOptions

DATA = tc.dumps(branching())
FORMATS: tuple[Any, ...] = ("tosa", "json", "mlir", "mlirbc")


def strided(data: bytes) -> memoryview:
    """Return a view of the data that is not contiguous."""
    spread = bytearray(2 * len(data))
    spread[::2] = data
    return memoryview(spread)[::2]


def mapped(data: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memory


@pytest.mark.parametrize(
    "make",
    [
        bytes,
        bytearray,
        memoryview,
        mapped,
        strided,
        io.BytesIO,
        lambda data: array.array("B", data),
        lambda data: np.frombuffer(data, np.uint8),
        lambda data: np.frombuffer(data, np.int8),
        lambda data: np.asarray(strided(data)),
        lambda data: np.frombuffer(data, np.uint8)[::-1].copy()[::-1],
    ],
    ids=["bytes", "bytearray", "memoryview", "mmap", "strided", "BytesIO", "array", "uint8", "int8",
         "strided-array", "reversed-array"],
)  # fmt: skip
@pytest.mark.parametrize("copy", [False, True])
def test_any_object_with_bytes_is_loaded(make: Any, copy: bool) -> None:
    assert tc.compare(tc.load(make(DATA), copy=copy), branching()) is None


def test_open_files_are_read_from_their_position(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(b"header" + DATA)
    with open(path, "rb") as file:
        file.seek(6)
        assert tc.compare(tc.load(file), branching()) is None
    with open(path, "rb") as file, pytest.raises(tc.TosaConvertError) as caught:
        tc.load(file)
    assert str(path) in caught.value.findings[0].where


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (io.StringIO("module {}"), "in text mode, expected binary mode"),
        (np.array([None]), "array of Python objects"),
        (3.5, "found float, expected a path, bytes or an open binary file"),
        (None, "found NoneType"),
    ],
)
def test_a_source_without_bytes_is_a_type_error_that_says_what_to_give(
    source: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        tc.load(source)


@pytest.mark.parametrize(
    "source", [np.zeros(0, np.uint8), bytearray(), io.BytesIO(), np.zeros((2, 0))]
)
def test_no_bytes_are_an_empty_input(source: Any) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(source)
    assert caught.value.code == "empty-input"


class BytesPath:
    """A path of bytes, as os.fspath allows it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return os.fsencode(self.path)


def test_paths_of_bytes_are_loaded_and_saved(tmp_path: Path) -> None:
    tc.save(branching(), os.fsencode(tmp_path / "m.tosa"))
    tc.save(branching(), BytesPath(tmp_path / "n.json"))
    for name in ("m.tosa", "n.json"):
        assert tc.compare(tc.load(BytesPath(tmp_path / name)), branching()) is None


def test_export_takes_a_path_of_bytes(tmp_path: Path, torch_mlir: Bindings) -> None:
    tc.export_tosa_func_to_flatbuffer(tc.to_module(branching()), os.fsencode(tmp_path / "m.json"))
    assert tc.compare(tc.load(tmp_path / "m.json"), branching()) is None


# -- copies ------------------------------------------------------------------------------------------


def large() -> tc.Graph:
    weight = tensor("w", "INT8", (1 << 21,), bytes(range(256)) * (1 << 13))
    return graph("", "w", [weight], [op("CONST", "", "w")])


@pytest.mark.parametrize("name", ["m.tosa", "o.tosa", "n.tosa", "m.mlirbc"])
def test_a_copied_file_may_be_overwritten_in_place(
    tmp_path: Path, torch_mlir: Bindings, name: str
) -> None:
    weights: Any = {"o.tosa": "offset", "n.tosa": "npy"}.get(name, "embedded")
    tc.save(large(), tmp_path / name, weights=weights)
    graphs = [tc.load(tmp_path / name, copy=True), tc.load(tmp_path / name)]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            with open(path, "r+b") as file:
                file.write(b"\0" * path.stat().st_size)
    first, second = ([bytes(data.buffer) for _, data in made.constants()] for made in graphs)
    assert first == [bytes(data.buffer) for _, data in large().constants()]
    # The test can fail: without a copy, the graph changes with the file.
    assert os.name != "posix" or first != second


def test_a_copied_buffer_may_change() -> None:
    data = bytearray(tc.dumps(large()))
    copied = tc.load(data, copy=True)
    data[:] = bytes(len(data))
    assert tc.compare(copied, large()) is None


# -- bytes and modules in memory ---------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_a_graph_becomes_bytes_of_each_format_and_comes_back(
    tmp_path: Path, torch_mlir: Bindings, name: Any
) -> None:
    data = tc.dumps(branching(), name, verify=True)
    assert isinstance(data, bytes)
    assert reading.open_input(data).format == name
    assert tc.compare(tc.load(data), branching()) is None
    tc.save(branching(), tmp_path / f"m.{name}")
    assert data == (tmp_path / f"m.{name}").read_bytes()


def test_weights_beside_a_file_are_refused_for_bytes() -> None:
    for name, weights in (("tosa", "npy"), ("json", "npy"), ("json", "auto")):
        options: Any = {"weights": weights}
        with pytest.raises(tc.TosaConvertError, match="there is no file") as caught:
            tc.dumps(large(), name, **options)  # type: ignore[arg-type]
        assert caught.value.code == "option-conflict"


def test_a_graph_becomes_a_module_and_comes_back(bindings: Bindings, context: Any) -> None:
    module = tc.to_module(branching(), context)
    assert isinstance(module, bindings.ir.Module)
    assert tc.compare(tc.from_module(module), branching()) is None
    assert tc.from_module(module, tosa_version="1.1").version.minor == 1


def test_an_unsound_graph_becomes_neither_bytes_nor_a_module(torch_mlir: Bindings) -> None:
    made = example()
    made.main.outputs.append("nowhere")
    calls: tuple[Any, ...] = (tc.to_module, tc.dumps, lambda g: tc.dumps(g, "mlir"))
    for call in calls:
        with pytest.raises(tc.TosaConvertError) as caught:
            call(made)
        assert caught.value.code == "undefined-name"


def test_import_uses_the_current_context(bindings: Bindings) -> None:
    with bindings.new_context() as current:
        assert tc.import_tosa_func_from_flatbuffer(DATA).context == current
        assert tc.to_module(branching()).context == current
        other = bindings.new_context()
        assert tc.import_tosa_func_from_flatbuffer(DATA, context=other).context == other
    assert tc.to_module(branching()).context not in (current, other)


# -- no work is done twice ---------------------------------------------------------------------------


@pytest.mark.usefixtures("torch_mlir")
def test_an_input_is_recognised_once_and_a_graph_is_verified_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.cli.main import run, verb

    calls: list[str] = []

    def count(module: str, name: str) -> None:
        function = getattr(sys.modules[module], name)

        def counted(*arguments: Any) -> Any:
            calls.append(name)
            return function(*arguments)

        monkeypatch.setattr(sys.modules[module], name, counted)

    count("tosa_convert.formats.read", "sniff")
    count("tosa_convert.graph.verify", "refuse_unsound")
    for name in FORMATS:
        tc.save(branching(), tmp_path / f"m.{name}")
        assert calls == ["refuse_unsound"]
        calls.clear()
        tc.load(tmp_path / f"m.{name}")
        assert calls == ["sniff"]
        calls.clear()
        for target in FORMATS:
            arguments = [str(tmp_path / f"m.{name}"), "-o", str(tmp_path / f"n.{target}")]
            assert run(verb("convert"), arguments) == 0
            assert sorted(calls) == ["refuse_unsound", "sniff"]
            calls.clear()
    tc.import_tosa_func_from_flatbuffer(tmp_path / "m.tosa")
    assert sorted(calls) == ["refuse_unsound", "sniff"]
    calls.clear()
    tc.save(large(), tmp_path / "w.tosa", weights="npy")
    assert calls == ["refuse_unsound"]


def test_shapes_for_a_flatbuffer_keep_its_version_and_producer(torch_mlir: Bindings) -> None:
    made = api.stamp(graph("x", "y", [tensor("x", "FP32", (-1,)), tensor("y", "FP32", (-1,))],
                           [op("EXP", "x", "y")]), "1.1")  # fmt: skip
    data = tc.dumps(made).replace(b"tosa-convert", b"other writer")
    before = tc.load(data)
    after = tc.load(data, input_shapes={"x": [7]})
    assert after.main.tensors["y"].shape == (7,)
    assert str(after.version) == str(before.version) == "1.1.0 draft"
    assert after.producer == before.producer
    assert "other writer" in str(after.producer)


def test_options_survive_pickle() -> None:
    import dataclasses

    options = ReadOptions(narrow=("i64",), input_shapes={"x": (1, 2)}, func="\udc80")
    values = dataclasses.asdict(options)
    assert dataclasses.asdict(pickle.loads(pickle.dumps(options))) == values


def test_public_names_are_listed_and_imported_when_used() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(tc.__all__) <= set(dir(tc))
        for name in tc.__all__:
            assert getattr(tc, name) is not None
    assert callable(tc.check)
    assert callable(tc.golden.check)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tc.nothing  # noqa: B018
