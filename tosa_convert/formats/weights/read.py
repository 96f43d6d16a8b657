"""A folder of `.npy` files and its manifest -> the constants of a Graph."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.formats.weights import npy
from tosa_convert.formats.weights.folder import files_to_map, manifest_of, size_of, view
from tosa_convert.formats.weights.manifest import NAME, Entry
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.model import Block, Graph, Tensor, quoted, require_graphs
from tosa_convert.graph.opset import CONST
from tosa_convert.graph.replace_data import replace_data
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

#: Bytes that are hashed at a time.
HASH_BYTES: Final = 1 << 22
Made = TypeVar("Made")
_OTHER_VERSION: Final = "these weights belong to another version of the program"


def read(
    graph: Graph,
    folder: str | os.PathLike[str],
    *,
    accept_changed: bool = False,
    checked: bool = True,
    copy: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Graph:
    """Put the constants of a folder in place of those of a graph; `graph` is not changed.

    Large files are mapped into memory: they must not be truncated while the graph is in use, but
    `write` can replace the folder. INT4 and INT48 are packed, since a program has them in another
    form.

    Args:
        graph: The program.
        folder: A folder that `write` has written.
        accept_changed: Accept arrays whose checksum differs from the one in the manifest. Checksums
            are not computed then. Types, shapes, lengths and ranges are checked nevertheless.
        checked: Check the values. If not, neither values nor checksums are read, and the graph is only
            to be looked at.
        copy: Read the files instead of mapping them.
        limits: Bounds the size of the manifest.

    Raises:
        TosaConvertError: The findings of the first step that has any: the manifest, the manifest
            against the graph, the files, their checksums, their values.
    """
    require_graphs(graph)
    folder = Path(folder)
    where = os.fspath(folder / NAME)
    entries = manifest_of(folder, limits)
    targets = _targets(graph, entries, where)
    _check_complete(graph, targets, where)
    constants = _Loader(folder, accept_changed, checked, copy).load(entries)
    rows = ((block, row.tensor, row.part, constants[row]) for row, (block, _) in targets.items())
    return replace_data(graph, rows)


def _targets(graph: Graph, entries: list[Entry], where: str) -> dict[Entry, tuple[Block, Tensor]]:
    """Find the tensor of each entry, and check its type and shape."""
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
    """Return the difference between an entry and its tensor, or ""."""
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
        if digest.hexdigest() != entry.sha256:
            message = f"its elements are not those that were written for {entry}"
            option = "--accept-changed-weights (accept_changed_weights=True)"
            hint = f"to accept edited weights, pass {option}"
            raise fail("changed-weights", self.path(entry), message, hint)

    def constant(self, entry: Entry, array: memoryview) -> Constant:
        row, count, where = dtype(entry.dtype), math.prod(entry.shape), self.path(entry)
        return npy.constant(array, where, row, count, entry.padding, checked=self.checked)


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
