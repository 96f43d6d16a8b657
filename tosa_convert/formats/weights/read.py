"""A folder of `.npy` files and its manifest, or a file of arrays -> the constants of a Graph."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.formats.weights import npy
from tosa_convert.formats.weights.archives import READERS, Contents, Stored, is_packed, stored_kind
from tosa_convert.formats.weights.folder import (
    NAME,
    Entry,
    files_to_map,
    load,
    manifest_of,
    size_of,
    view,
)
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.derived import Part, replace_data
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.model import Block, Graph, Tensor, quoted, require_graphs
from tosa_convert.graph.opset import CONST
from tosa_convert.graph.verify_values import INT4_HINT, INT4_MINUS_8
from tosa_convert.io import log
from tosa_convert.io.files import map_file
from tosa_convert.io.formats import WEIGHT_FILES, weights_kind
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

#: Bytes that are hashed at a time.
HASH_BYTES: Final = 1 << 22
Made = TypeVar("Made")
_OTHER_VERSION: Final = "these weights belong to another version of the program"


def read(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    accept_changed: bool = False,
    checked: bool = True,
    copy: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Graph:
    """Return the graph with the constants of a folder or file, mapped where their form allows."""
    require_graphs(graph)
    path = Path(path)
    loader: Callable[[Path, bool, bool, bool], _Loader] = _Loader
    if path.is_dir() or not path.exists():
        where, entries = os.fspath(path / NAME), manifest_of(path, limits)
    else:
        where, contents = os.fspath(path), _contents(path, copy, limits)
        if contents.manifest is None:
            entries = _entries_by_name(graph, contents, where)
        else:
            entries = load(contents.manifest, where, has_keys=True)
        loader = partial(_ArchiveLoader, contents)
    targets = _targets(graph, entries, where)
    _check_complete(graph, targets, where)
    constants = loader(path, accept_changed, checked, copy).load(entries)
    rows = ((block, row.tensor, row.part, constants[row]) for row, (block, _) in targets.items())
    return replace_data(graph, rows)


def _contents(path: Path, copy: bool, limits: Limits) -> Contents:
    """Read the table of a file of arrays."""
    where = os.fspath(path)
    data = map_file(path, copy=copy)
    form = weights_kind(data)
    if not form:
        expected = ", ".join(row.extension for row in WEIGHT_FILES.values())
        message = f"it begins with {bytes(data[:8])!r}, expected a file of weights: {expected}"
        raise fail("malformed-weights", where, message)
    return READERS[form](data, where, limits)


def refuse_foreign_file(path: str) -> None:
    """Raise TosaConvertError("foreign-folder") for a file of weights that `write` has not written."""
    try:
        is_ours = _contents(Path(path), False, DEFAULT_LIMITS).manifest is not None
    except TosaConvertError:
        is_ours = False
    if not is_ours:
        message = "tosa-convert did not write this file, and it would be lost"
        raise fail("foreign-folder", path, message, "move it away, or choose another name")


def _entries_by_name(graph: Graph, contents: Contents, where: str) -> list[Entry]:
    """Return an entry for each array that a tensor has the name of; log other arrays."""
    found: dict[str, list[Entry]] = {}
    for region in graph.regions:
        for block in region.blocks:
            for key, tensor, part in _keys_of(block):
                if key in contents.arrays:
                    entry = _entry(region.name, block, tensor, part, key, contents.arrays[key])
                    found.setdefault(key, []).append(entry)
    findings = Findings()
    for key, entries in found.items():
        if len(entries) > 1:
            message = f"{len(entries)} tensors have this name: " + ", ".join(map(str, entries[:4]))
            hint = "rename one of them"
            findings.add("mismatched-weights", f"{where}: {key[:80]!r}", message, hint)
    others = [key for key in contents.arrays if key not in found]
    if others and not found:
        message = f"the program has no tensor of a name in it: {_listing(others)}"
        findings.add("undefined-name", where, message, "rename the arrays or the tensors")
    findings.raise_if_any()
    if others:
        message = "%s: %d arrays have no tensor of their name in the program: %s"
        log.warning(message, where, len(others), _listing(others))
    return [entry for entries in found.values() for entry in entries]


def _listing(keys: list[str]) -> str:
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    return ", ".join(key[:80] for key in keys[:8]) + more


def _keys_of(block: Block) -> Iterator[tuple[str, Tensor, Part]]:
    """Iterate over the constants and variables of a block, with the keys that their arrays have."""
    made = {name for row in block.operators if row.spec is CONST for name in row.outputs}
    for tensor in block.tensors.values():
        if tensor.name in made or tensor.variable:
            yield tensor.name, tensor, "data"
            if tensor.scale is not None:
                yield f"{tensor.name}.scale", tensor, "scale_data"


def _entry(
    region: str, block: Block, tensor: Tensor, part: Part, key: str, stored: Stored
) -> Entry:
    """Make an entry for an array of a file without a manifest."""
    row, shape, data = tensor.dtype, tensor.shape or (), tensor.data
    if part == "scale_data" and tensor.scale is not None:
        row, data = tensor.scale.dtype, tensor.scale.data
        shape = (-(-math.prod(shape) // int(tensor.scale.shape)),)
    shape = shape if stored.shape is None else stored.shape
    count = math.prod(shape)
    padding = (data or Constant(row, count, bytes(row.element_bytes), splat=True)).usual_padding
    padding = padding if data is None else data.padding
    return Entry(region, block.name, tensor.name, part, key, row.name, shape, padding, "")


def _targets(graph: Graph, entries: list[Entry], where: str) -> dict[Entry, tuple[Block, Tensor]]:
    blocks: dict[tuple[str, str], Block] = {}
    for region in graph.regions:
        for block in region.blocks:
            blocks.setdefault((region.name, block.name), block)
    findings = Findings()
    targets = {}
    for entry in entries:
        path = f"{where}: {entry}"
        owner = blocks.get((entry.region, entry.block))
        tensor = None if owner is None else owner.tensors.get(entry.tensor)
        if owner is None or tensor is None:
            message = "the program does not have this tensor"
            hint = "these weights belong to another program, or to another version of it"
            findings.add("undefined-name", path, message, hint)
            continue
        problem = _problem(entry, tensor)
        if problem:
            findings.add("mismatched-weights", path, problem, _OTHER_VERSION)
        targets[entry] = (owner, tensor)
    findings.raise_if_any()
    return targets


def _problem(entry: Entry, tensor: Tensor) -> str:
    if entry.part == "data":
        return _difference(entry, tensor.dtype, tensor.shape)
    if tensor.scale is None:
        return "it holds scales, but the tensor is not block-scaled"
    count = tensor.element_count()
    blocks = None if count is None else -(-count // int(tensor.scale.shape))
    return _difference(entry, tensor.scale.dtype, None if blocks is None else (blocks,))


def _difference(entry: Entry, row: DType, shape: tuple[int, ...] | None) -> str:
    if entry.dtype == row.name and entry.shape == shape:
        return ""
    expected = "unranked" if shape is None else str(list(shape))
    return f"it is {entry.dtype} {list(entry.shape)}, the program has {row} {expected}"


def _check_complete(graph: Graph, targets: dict[Entry, tuple[Block, Tensor]], where: str) -> None:
    """Raise unless each constant has data or gets it from the folder."""
    given = {(id(block), tensor.name, entry.part) for entry, (block, tensor) in targets.items()}
    findings = Findings()
    for path, block, tensor in _constants(graph):
        scales = tensor.scale
        for part, missing in (
            ("data", tensor.data is None),
            ("scale_data", scales is not None and scales.data is None),
        ):
            if missing and (id(block), tensor.name, part) not in given:
                message = f"neither the program nor {where} has the constant's {part}"
                hint = _OTHER_VERSION
                findings.add("missing-data", f"{path} tensor {quoted(tensor.name)}", message, hint)
    findings.raise_if_any()


def _constants(graph: Graph) -> Iterator[tuple[str, Block, Tensor]]:
    for path, block in graph.blocks():
        for operator in block.operators:
            if operator.spec is CONST:
                for name in operator.outputs:
                    tensor = block.tensors.get(name)
                    if tensor is not None and tensor.element_count() != 0:
                        yield path, block, tensor


class _Loader:
    """Opens, checks and maps the files of a folder."""

    def __init__(self, folder: Path, accept_changed: bool, checked: bool, copy: bool) -> None:
        self.folder = folder
        self.accept_changed = accept_changed
        self.checked = checked
        self.copy = copy

    def load(self, entries: list[Entry]) -> dict[Entry, Constant]:
        arrays = self.arrays(entries)
        if self.checked and not self.accept_changed:
            _made(entries, lambda entry: self.check_sum(entry, arrays[entry]))
        return _made(entries, lambda entry: self.constant(entry, arrays[entry]))

    def path(self, entry: Entry) -> str:
        return os.fspath(self.folder / entry.file)

    def arrays(self, entries: list[Entry]) -> dict[Entry, memoryview]:
        findings = Findings()
        sizes = _made(entries, lambda entry: size_of(self.folder, entry.file), findings)
        # If not all files can be mapped, the largest are.
        order = sorted(sizes, key=sizes.__getitem__, reverse=True)
        mapped = set[Entry]() if self.copy else set(order[: files_to_map()])

        def array(entry: Entry) -> memoryview:
            file = view(self.folder, entry.file, mapped=entry in mapped)
            return npy.array(file, self.path(entry), dtype(entry.dtype), entry.shape)

        arrays = _made(order, array, findings)
        findings.raise_if_any()
        return arrays

    def check_sum(self, entry: Entry, array: memoryview) -> None:
        digest = hashlib.sha256()
        for start in range(0, len(array), HASH_BYTES):
            digest.update(array[start : start + HASH_BYTES])
        if entry.sha256 and digest.hexdigest() != entry.sha256:
            message = f"its elements are not those that were written for {entry}"
            option = "--accept-changed-weights (accept_changed_weights=True)"
            hint = f"to accept edited weights, pass {option}"
            raise fail("changed-weights", self.path(entry), message, hint)

    def constant(self, entry: Entry, array: memoryview) -> Constant:
        row, count, where = dtype(entry.dtype), math.prod(entry.shape), self.path(entry)
        return npy.constant(array, where, row, count, entry.padding, checked=self.checked)


class _ArchiveLoader(_Loader):
    """Finds and checks the arrays of one file."""

    def __init__(self, contents: Contents, *options: Any) -> None:
        super().__init__(*options)
        self.contents = contents

    def path(self, entry: Entry) -> str:
        stored = self.contents.arrays.get(entry.file)
        place = "" if stored is None else f"byte {stored.offset}: "
        return f"{os.fspath(self.folder)}: {place}{entry.file[:80]!r}"

    def arrays(self, entries: list[Entry]) -> dict[Entry, memoryview]:
        return _made(entries, self.array)

    def array(self, entry: Entry) -> memoryview:
        """Return the bytes of an array, which must be of the entry's type and shape."""
        where, row, count = self.path(entry), dtype(entry.dtype), math.prod(entry.shape)
        stored = self.contents.arrays.get(entry.file)
        if stored is None:
            hint = "the file belongs to another version of the program"
            raise fail("missing-data", where, "the file does not have this array", hint)
        kind = stored_kind(row, count)
        if stored.kind not in ("", kind) or stored.shape not in (None, entry.shape):
            shape = list(entry.shape if stored.shape is None else stored.shape)
            found = f"it is {stored.kind or kind} {shape}"
            message = f"{found}, {row} {list(entry.shape)} is stored as {kind}"
            raise fail("mismatched-weights", where, message, _hint(stored.kind))
        needed = (
            row.wire_bytes(count)
            if self.is_packed(row, count, stored)
            else npy.stored_bytes(row, count)
        )
        if stored.nbytes != needed:
            message = f"it has {stored.nbytes} bytes, {row} {list(entry.shape)} needs {needed}"
            raise fail("mismatched-weights", where, message, _OTHER_VERSION)
        return stored.load()

    def is_packed(self, row: DType, count: int, stored: Stored) -> bool:
        return is_packed(row, count) if stored.kind else row.is_packed

    def constant(self, entry: Entry, array: memoryview) -> Constant:
        row, count = dtype(entry.dtype), math.prod(entry.shape)
        stored = self.contents.arrays[entry.file]
        if stored.splat:
            width = row.element_bytes
            if row.is_packed or width % len(array):
                message = f"all of its elements are {len(array)} bytes, {row} has {row.bits} bits"
                raise fail("mismatched-weights", self.path(entry), message, _OTHER_VERSION)
            element = bytes(array) * (width // len(array))
            return Constant(row, count, element, splat=True, padding=entry.padding)
        if not self.is_packed(row, count, stored):
            return npy.constant(
                array, self.path(entry), row, count, entry.padding, checked=self.checked
            )
        made = Constant(row, count, array, padding=entry.padding)
        if self.checked and made.holds_int4_minus_8():
            raise fail("int4-minus-8", self.path(entry), INT4_MINUS_8, INT4_HINT)
        return made


def _hint(kind: str) -> str:
    """Say what to do about an array of a kind."""
    if kind.startswith("GGUF "):
        return "TOSA has no such type: write the tensor as F16, BF16 or MXFP4, or dequantise it"
    return "convert the array to the type of the tensor, or give the program another"


def _made(
    entries: Iterable[Entry], make: Callable[[Entry], Made], findings: Findings | None = None
) -> dict[Entry, Made]:
    """Make something of each entry. Raise the findings of all that fail, or add them to `findings`."""
    found = Findings() if findings is None else findings
    made = {}
    for entry in entries:
        try:
            made[entry] = make(entry)
        except TosaConvertError as error:
            found.extend(error.findings)
    if findings is None:
        found.raise_if_any()
    return made
