"""Graph -> its constants in a folder of `.npy` files, or as the arrays of one file, and a manifest."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tosa_convert.errors import Findings
from tosa_convert.formats.weights import folder, npy
from tosa_convert.formats.weights.archives import WRITERS, Item, Writer
from tosa_convert.formats.weights.folder import Entry, replacing
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.derived import Part, replace_data, unused_name
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    SoftwareVersion,
    Tensor,
    block_path,
    quoted,
    require_graphs,
)
from tosa_convert.io.files import Retried, replace_file, write_pieces
from tosa_convert.io.options import WeightForm

# -- A program without its weights, to attach to a bug report --------------------------------------


def strip(graph: Graph, *, keep_parameters: bool = True) -> Graph:
    """Return the graph with zeros for weights; keep_parameters: but not for what readers fix early."""
    require_graphs(graph)
    return replace_data(graph, _zeroed(graph, keep_parameters))


def _zeroed(graph: Graph, keep_parameters: bool) -> Iterator[tuple[Block, str, Part, Constant]]:
    for _, block in graph.blocks():
        kept = _parameters(block) if keep_parameters else frozenset()
        for name, tensor in block.tensors.items():
            if tensor.data is not None and name not in kept:
                yield block, name, "data", _zeros(tensor.data)
            if tensor.scale is not None and tensor.scale.data is not None:
                yield block, name, "scale_data", _zeros(tensor.scale.data)


def compile_time(block: Block) -> frozenset[str]:
    """Return the names of the tensors whose values an operator needs when it is compiled."""
    return frozenset(
        name
        for op in block.operators
        for index, name in enumerate(op.inputs)
        if _is_parameter(op, index)
    )


def _parameters(block: Block) -> frozenset[str]:
    """Return the names of the tensors that operators use as parameters and as nothing else."""
    others = set(block.outputs)
    for op in block.operators:
        others.update(name for index, name in enumerate(op.inputs) if not _is_parameter(op, index))
    return compile_time(block) - others


def _is_parameter(op: Operator, index: int) -> bool:
    count = len(op.inputs)
    fewest, most = op.spec.operand_range()
    if count < fewest or (most is not None and count > most):
        return False
    row = op.spec.operand(index, count)
    return row.is_constant or row.name == "pad_const"


def _zeros(data: Constant) -> Constant:
    zero = bytes(data.dtype.element_bytes)
    return Constant(data.dtype, data.count, zero, splat=True, padding=data.padding)


#: Called with the bytes written so far and the bytes of all elements.
Progress = Callable[[int, int], None]

#: Most characters of a tensor's name in the name of its file.
NAME_LENGTH: Final = 100

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.+-]+")


def write(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    form: WeightForm = "npy",
    larger_than: int = 0,
    only_parameters: bool = False,
    producer: SoftwareVersion | None = None,
    progress: Progress | None = None,
) -> Graph:
    """Write constants, replacing a folder or file as a whole; return the graph without them."""
    selected = list(_selected(graph, larger_than, only_parameters))
    _check(graph, selected, most=npy.MAX_RANK if form == "npy" else None)
    total = sum(npy.stored_bytes(row.constant.dtype, row.constant.count) for row in selected)
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    by = producer and f"{producer.modifier} {producer.major}.{producer.minor}.{producer.micro}"
    if form == "npy":
        with replacing(Path(path)) as fresh:
            names = _FileNames()
            entries = [
                row.entry(name, _write_array(fresh / name, row, report))
                for row in selected
                for name in (names.name(row.tensor.name, row.part),)
            ]
            text = folder.dump(entries, by or "")
            _write_file(fresh / folder.NAME, iter((memoryview(text),)))
    else:
        _write_archive(WRITERS[form], os.fspath(path), selected, by or "", report)
    return _without(graph, selected)


def _write_archive(
    writer: Writer,
    path: str,
    selected: list[_Selected],
    producer: str,
    report: Callable[[int], None],
) -> None:
    """Write one file with all arrays, reading elements twice: their hashes come first."""
    keys: set[str] = set()
    numbers: dict[str, int] = {}
    rows: dict[str, _Selected] = {}
    for row in selected:
        name = row.tensor.name + (".scale" if row.part == "scale_data" else "")
        # A key is UTF-8, which a name need not be.
        name = name.encode("utf-8", "backslashreplace").decode() or "_"
        key = unused_name(name, keys, separator="-", first=2, numbers=numbers)
        keys.add(key)
        rows[key] = row
    items = writer.layout([Item(key, row.shape, row.constant) for key, row in rows.items()])
    entries = []
    for item in items:
        digest = hashlib.sha256()
        for piece in writer.elements(item):
            digest.update(piece)
        entries.append(rows[item.key].entry(item.key, digest.hexdigest()))
    text = folder.dump(entries, producer)

    def pieces() -> Iterator[bytes | memoryview]:
        for piece in writer.pieces(items, text):
            yield piece
            report(len(piece))

    replace_file(path, pieces())


def without(graph: Graph, *, larger_than: int = 0, only_parameters: bool = False) -> Graph:
    """Return the graph that `write` returns, without writing anything."""
    return _without(graph, list(_selected(graph, larger_than, only_parameters)))


@dataclass(frozen=True, slots=True)
class _Selected:
    """A constant that is written into a file."""

    region: str
    block: Block
    tensor: Tensor
    part: Part
    constant: Constant

    @property
    def shape(self) -> tuple[int, ...]:
        if self.part == "scale_data":
            return (self.constant.count,)
        return self.tensor.shape or ()

    def entry(self, file: str, digest: str) -> Entry:
        """Return the row of the manifest for this file or key, and the SHA-256 of its elements."""
        constant = self.constant
        return Entry(
            self.region,
            self.block.name,
            self.tensor.name,
            self.part,
            file,
            constant.dtype.name,
            self.shape,
            constant.padding,
            digest,
        )

    def __str__(self) -> str:
        return f"{block_path(self.region, self.block.name)} tensor {quoted(self.tensor.name)}"


def _selected(graph: Graph, larger_than: int, only_parameters: bool) -> Iterator[_Selected]:
    for region in graph.regions:
        for block in region.blocks:
            fixed = compile_time(block) if only_parameters else frozenset()
            for tensor in block.tensors.values():
                if only_parameters and (tensor.variable or tensor.scale or tensor.name in fixed):
                    continue
                data = tensor.data
                if data is not None and data.nbytes > larger_than:
                    yield _Selected(region.name, block, tensor, "data", data)
                scales = None if tensor.scale is None else tensor.scale.data
                if scales is not None and scales.nbytes > larger_than:
                    yield _Selected(region.name, block, tensor, "scale_data", scales)


def _check(graph: Graph, selected: list[_Selected], most: int | None) -> None:
    """Refuse, before writing, what would make weights unreadable, such as ranks above `most`."""
    findings = Findings()
    seen: set[tuple[str, str]] = set()
    for region in graph.regions:
        for block in region.blocks:
            if (region.name, block.name) in seen:
                message = "two blocks have these names, by which the manifest identifies constants"
                findings.add("duplicate-name", block_path(region.name, block.name), message)
            seen.add((region.name, block.name))
    for row in selected:
        if most is not None and len(row.shape) > most:
            message = f"it has {len(row.shape)} dimensions, an .npy file at most {most}"
            findings.add("unsupported-shape", str(row), message)
    findings.raise_if_any()


class _FileNames:
    """File names made of the tensors' names; valid on every system, and different in lower case."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        #: The last number of each name, so that many equal names take linear time.
        self.numbers: dict[str, int] = {}

    def name(self, tensor: str, part: Part) -> str:
        stem = _UNSAFE.sub("_", tensor)[:NAME_LENGTH].lstrip(".+-").rstrip(".")
        if not stem or folder.is_device(stem):
            stem = f"_{stem}"
        if part == "scale_data":
            stem += ".scale"
        unused = unused_name(
            stem, self.taken, separator="-", first=2, fold=str.lower, numbers=self.numbers
        )
        self.taken.add(unused.lower())
        return f"{unused}.npy"


def _write_array(path: Path, row: _Selected, report: Callable[[int], None]) -> str:
    digest = hashlib.sha256()

    def pieces() -> Iterator[memoryview]:
        yield memoryview(npy.header(row.constant.dtype, row.shape))
        for block in npy.blocks(row.constant):
            digest.update(block)
            yield block
            report(len(block))

    _write_file(path, pieces())
    return digest.hexdigest()


def _write_file(path: Path, pieces: Iterator[memoryview]) -> None:
    with open(path, "xb", buffering=0) as file:
        write_pieces(Retried(file, str(path.parent)), pieces)
        os.fsync(file.fileno())


def _without(graph: Graph, selected: list[_Selected]) -> Graph:
    """Return the graph without the data of the selected constants; it shares everything else."""
    return replace_data(graph, ((row.block, row.tensor.name, row.part, None) for row in selected))
