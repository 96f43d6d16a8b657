"""Reads ONNX models without their weights, and the weights as views of the mapped files.

Protocol buffers hold at most 2 GiB, and onnx's shape inference copies a model. So the data of every
large tensor stays in its file, which may be the `.onnx` file itself, and the model refers to it as ONNX
does to external data.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tosa_convert.errors import fail
from tosa_convert.frontends.protobuf import encoded_bytes, encoded_number, message, spans
from tosa_convert.io.files import path_below

#: Bytes from which the data of a tensor stays in its file.
LEAST: Final = 1 << 16
# Numbers of fields of onnx.proto.
_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 9, 13, 14
_KEY, _VALUE = 1, 2

#: Bytes of a sparse tensor as a whole: at most so many, or so many times those of its elements.
_MOST_DENSE, _DENSE_SHARE = 1 << 26, 16
#: Digits of no place in a file.
_MOST_DIGITS: Final = 20

_BESIDE: Final = "files of external data have to be in the folder of the model"

Array = np.ndarray[Any, Any]
_Pieces = list[bytes | memoryview]


def is_external(tensor: Any) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def large_tensors(model: Any) -> list[Any]:
    """Return the initializers of the main graph whose data stays in files."""
    return [tensor for tensor in model.graph.initializer if is_external(tensor)]


class Weights:
    """Hold the data of large tensors, in mapped files. folder: that of the external data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Array] = {}

    def bytes_of(self, tensor: Any) -> Array:
        """Return the data of a tensor as bytes, a view of the mapped file."""
        entries = _entries(tensor)
        data = self._file(entries.get("location", ""), tensor.name)
        start = _whole(entries.get("offset", "0"))
        size = _whole(entries.get("length", str(max(len(data) - start, 0))))
        if start < 0 or size < 0 or start + size > len(data):
            found = f"offset {entries.get('offset')} and length {entries.get('length')}"
            text = f"its external data has {found}, and the file has {len(data)} bytes"
            raise fail("missing-data", tensor.name, text)
        return data[start : start + size]

    def array(self, tensor: Any) -> Array:
        """Return the elements of a tensor; a view of the mapped file where numpy has the type."""
        if not is_external(tensor):
            return np.asarray(numpy_helper.to_array(tensor))
        data = self.bytes_of(tensor)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        shape = tuple(tensor.dims)
        if dtype.itemsize * int(np.prod(shape, dtype=np.int64)) == len(data):
            return np.asarray(data.view(dtype).reshape(shape))
        return np.asarray(numpy_helper.to_array(self._loaded(tensor)))

    def dense(self, sparse: Any) -> Array:
        """Return all elements of a sparse tensor."""
        values, places = self.array(sparse.values), self.array(sparse.indices)
        shape, name = tuple(sparse.dims), sparse.values.name
        size = math.prod(shape) * values.itemsize
        if size > max(_MOST_DENSE, _DENSE_SHARE * values.nbytes):
            raise fail("unrecognised-input", name, f"it is sparse, and has {size} bytes as a whole")
        try:
            flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)
            made = np.zeros(shape, values.dtype)
            made[np.unravel_index(flat, shape)] = values
        except (ValueError, IndexError, TypeError):
            raise fail("unrecognised-input", name, "its sparse places are damaged") from None
        return made

    def _loaded(self, tensor: Any) -> Any:
        """Copy the tensor, with its data."""
        made = onnx.TensorProto()
        made.CopyFrom(tensor)
        del made.external_data[:]
        made.ClearField("data_location")
        made.raw_data = self.bytes_of(tensor).tobytes()
        return made

    def load_small(self, model: Any) -> None:
        """Read small tensors that are in files, and those that are not initializers, in place."""
        for tensor in model.graph.initializer:
            if is_external(tensor) and self.bytes_of(tensor).nbytes < LEAST:
                tensor.CopyFrom(self._loaded(tensor))
        for tensor in _inner_tensors([*model.graph.node]):
            if is_external(tensor):
                tensor.CopyFrom(self._loaded(tensor))

    def _file(self, location: str, tensor: str) -> Array:
        if location not in self._files:
            # One out of the model's folder is refused.
            what = f"the external data of {tensor}"
            path = Path(path_below(self.folder, location, what))
            try:
                self._files[location] = _mapped(path)
            except OSError as error:
                text = f"its external data is in {location}: {error.strerror}"
                raise fail("missing-data", tensor, text, _BESIDE) from None
        return self._files[location]


def load(path: Path) -> tuple[Any, Weights]:
    """Load a model without the data of its large tensors, and the files that have it."""
    real = path.resolve()
    model = _without_data(_mapped(real), real.name)
    weights = Weights(real.parent)
    locations = {_entries(tensor).get("location") for tensor in large_tensors(model)}
    if locations - {real.name}:
        weights = Weights(path.parent)
        if real.parent != path.parent.resolve():
            # The model is a link into another folder than that of its weights.
            model = onnx.load(path, load_external_data=False)
    weights.load_small(model)
    return model, weights


def _mapped(path: Path) -> Array:
    """Map the bytes of a file, which are read when they are used."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return np.zeros(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _without_data(data: Array, location: str) -> Any:
    """Parse the model of a file, whose large tensors refer to that file."""
    try:
        pieces = _of_model(data.data, location)
    except ValueError:
        pieces = [data.data]  # onnx says what is wrong with it.
    model = onnx.ModelProto()
    model.ParseFromString(b"".join(pieces))
    return model


def _of_model(view: memoryview, location: str) -> _Pieces:
    pieces: _Pieces = []
    for number, value, start, end in spans(view):
        if number == _GRAPH:
            graph = message(value)
            pieces += encoded_bytes(number, *_of_graph(graph, end - len(graph), location))
        else:
            pieces.append(view[start:end])
    return pieces


def _of_graph(view: memoryview, place: int, location: str) -> _Pieces:
    """Return the pieces of the graph, which begins at a place of the file."""
    pieces: _Pieces = []
    for number, value, start, end in spans(view):
        if number == _INITIALIZER and end - start >= LEAST:
            tensor = message(value)
            found = _of_tensor(tensor, place + end - len(tensor), location)
            pieces += encoded_bytes(number, *found)
        else:
            pieces.append(view[start:end])
    return pieces


def _of_tensor(view: memoryview, place: int, location: str) -> _Pieces:
    """Return the pieces of the tensor at a place of the file; its data is left out if it is large."""
    pieces: _Pieces = []
    is_left_out = False
    for number, value, start, end in spans(view):
        if number != _RAW_DATA or end - start < LEAST:
            pieces.append(view[start:end])
            continue
        size = len(message(value))
        rows = {"location": location, "offset": str(place + end - size), "length": str(size)}
        for name, text in rows.items():
            entry = (*encoded_bytes(_KEY, name.encode()), *encoded_bytes(_VALUE, text.encode()))
            pieces += encoded_bytes(_EXTERNAL_DATA, *entry)
        is_left_out = True
    if is_left_out:  # The last value of a field counts.
        pieces.append(encoded_number(_DATA_LOCATION, onnx.TensorProto.EXTERNAL))
    return pieces


def _entries(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _whole(text: str) -> int:
    """Return a number of decimal digits; -1 for another text, among them some that `int` takes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS else -1


def _inner_tensors(nodes: Iterable[Any]) -> Iterator[Any]:
    """Iterate over the tensors of nodes: of their attributes, and of the graphs that they hold."""
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.initializer
                yield from _inner_tensors(graph.node)
