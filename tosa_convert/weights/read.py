"""A folder of `.npy` files and its manifest -> the constants of a Graph."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.model import Block, Graph, Tensor, quoted
from tosa_convert.graph.opset import CONST
from tosa_convert.options import DEFAULT_LIMITS, Limits
from tosa_convert.weights import npy
from tosa_convert.weights.folder import files_to_map, manifest_of, size_of, view
from tosa_convert.weights.manifest import NAME, Entry
from tosa_convert.weights.replace_data import with_data, with_tensors

#: Bytes that are hashed at a time.
BLOCK: Final = 1 << 22


def read(
    graph: Graph,
    folder: str | os.PathLike[str],
    *,
    accept_changed: bool = False,
    copy: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Graph:
    """The graph with the constants that `folder` holds; `graph` is not changed.

    What the folder holds replaces the data that a tensor has. Large files are mapped: they take no
    memory until they are touched, must not be truncated while the graph lives, and may be replaced
    by `write`. INT4 and INT48 are packed at once, because a program has them in another form.

    accept_changed: take weights whose checksum differs from the manifest's, because they were edited
        on purpose. Checksums are not computed then, so that nothing reads the files before they are
        used. Types, shapes, lengths and ranges are checked all the same.
    copy: read the files instead of mapping them.
    limits: bounds the size of the manifest.

    Raises TosaConvertError with the findings of the first step that has any: the manifest by itself,
    the manifest against the graph, the files, their checksums.
    """
    folder = Path(folder)
    where = os.fspath(folder / NAME)
    entries = manifest_of(folder, limits)
    targets = _targets(graph, entries, where)
    _complete(graph, targets, where)
    constants = _Loader(folder, accept_changed, copy).load(entries)
    changed: dict[int, dict[str, Tensor]] = {}
    for entry, (block, tensor) in targets.items():
        tensors = changed.setdefault(id(block), {})
        tensor = tensors.get(tensor.name, tensor)
        tensors[tensor.name] = with_data(tensor, entry.part, constants[entry])
    return with_tensors(graph, changed)


def _targets(graph: Graph, entries: list[Entry], where: str) -> dict[Entry, tuple[Block, Tensor]]:
    """The tensor that each entry is about, of the entry's type and shape."""
    blocks: dict[tuple[str, str], Block] = {}
    for region in graph.regions:
        for block in region.blocks:
            blocks.setdefault((region.name, block.name), block)
    findings: list[Finding] = []
    targets = {}
    for entry in entries:
        place = f"{where}: {entry}"
        owner = blocks.get((entry.region, entry.block))
        tensor = None if owner is None else owner.tensors.get(entry.tensor)
        if owner is None or tensor is None:
            findings.append(
                Finding(
                    "undefined-name",
                    place,
                    "the program has no such tensor",
                    "these weights belong to another program, or to another version of it",
                )
            )
            continue
        problem = _problem(entry, tensor)
        if problem:
            findings.append(
                Finding(
                    "mismatched-weights",
                    place,
                    problem,
                    "these weights belong to another version of the program",
                )
            )
        targets[entry] = (owner, tensor)
    if findings:
        raise TosaConvertError(findings[:MAX_FINDINGS])
    return targets


def _problem(entry: Entry, tensor: Tensor) -> str:
    """How an entry does not fit its tensor, or ""."""
    if entry.part == "data":
        return _difference(entry, tensor.dtype, tensor.shape)
    if tensor.scale is None:
        return "it has scales, and the tensor is not block-scaled"
    count = tensor.element_count()
    blocks = None if count is None else -(-count // int(tensor.scale.shape))
    return _difference(entry, tensor.scale.dtype, None if blocks is None else (blocks,))


def _difference(entry: Entry, row: DType, shape: tuple[int, ...] | None) -> str:
    if entry.dtype == row.name and entry.shape == shape:
        return ""
    expected = "of no rank" if shape is None else str(list(shape))
    return f"it is {entry.dtype} {list(entry.shape)}, the program has {row} {expected}"


def _complete(graph: Graph, targets: dict[Entry, tuple[Block, Tensor]], where: str) -> None:
    """Raise unless every constant has data, or will have."""
    given = {(id(block), tensor.name, entry.part) for entry, (block, tensor) in targets.items()}
    findings = []
    for path, block, tensor in _constants(graph):
        scales = tensor.scale
        for part, missing in (
            ("data", tensor.data is None),
            ("scale_data", scales is not None and scales.data is None),
        ):
            if missing and (id(block), tensor.name, part) not in given:
                findings.append(
                    Finding(
                        "missing-data",
                        f"{path} tensor {quoted(tensor.name)}",
                        f"neither the program nor {where} has the constant's {part}",
                        "these weights belong to another version of the program",
                    )
                )
    if findings:
        raise TosaConvertError(findings[:MAX_FINDINGS])


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

    def __init__(self, folder: Path, accept_changed: bool, copy: bool) -> None:
        self.folder = folder
        self.accept_changed = accept_changed
        self.copy = copy
        self.findings: list[Finding] = []

    def load(self, entries: list[Entry]) -> dict[Entry, Constant]:
        sizes = {}
        for entry in entries:
            try:
                sizes[entry] = size_of(self.folder, entry.file)
            except TosaConvertError as error:
                self.findings += error.findings
        # The largest are mapped if not all can be.
        order = sorted(sizes, key=sizes.__getitem__, reverse=True)
        left = 0 if self.copy else files_to_map()
        arrays: dict[Entry, memoryview] = {}
        for index, entry in enumerate(order):
            path = os.fspath(self.folder / entry.file)
            try:
                file = view(self.folder, entry.file, mapped=index < left)
                arrays[entry] = npy.array(file, path, dtype(entry.dtype), entry.shape)
            except TosaConvertError as error:
                self.findings += error.findings
        self.raise_findings()
        if not self.accept_changed:
            for entry in entries:
                self.check_sum(entry, arrays[entry])
            self.raise_findings()
        constants = {}
        for entry in entries:
            try:
                constants[entry] = self.constant(entry, arrays[entry])
            except TosaConvertError as error:
                self.findings += error.findings
        self.raise_findings()
        return constants

    def raise_findings(self) -> None:
        if self.findings:
            raise TosaConvertError(self.findings[:MAX_FINDINGS])

    def check_sum(self, entry: Entry, data: memoryview) -> None:
        digest = hashlib.sha256()
        for start in range(0, len(data), BLOCK):
            digest.update(data[start : start + BLOCK])
        if digest.hexdigest() != entry.sha256:
            self.findings.append(
                Finding(
                    "changed-weights",
                    os.fspath(self.folder / entry.file),
                    f"its elements are not those that were written for {entry}",
                    "if it was changed on purpose, ask for changed weights to be accepted",
                )
            )

    def constant(self, entry: Entry, data: memoryview) -> Constant:
        row = dtype(entry.dtype)
        count = 1
        for size in entry.shape:
            count *= size
        path = os.fspath(self.folder / entry.file)
        return npy.constant(data, path, row, count, entry.padding)
