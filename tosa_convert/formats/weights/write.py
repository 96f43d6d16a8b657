"""Graph -> a folder of `.npy` files, one for each constant, and a manifest."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tosa_convert.errors import Findings
from tosa_convert.formats.weights import manifest, npy
from tosa_convert.formats.weights.folder import replacing
from tosa_convert.formats.weights.manifest import Entry
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Block, Graph, SoftwareVersion, Tensor, block_path, quoted
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.replace_data import Part, replace_data
from tosa_convert.io.files import write_pieces

#: Called with the bytes written so far and the bytes of all elements.
Progress = Callable[[int, int], None]

#: Most characters of a tensor's name in the name of its file.
NAME_LENGTH: Final = 100

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.+-]+")


def write(
    graph: Graph,
    folder: str | os.PathLike[str],
    *,
    larger_than: int = 0,
    producer: SoftwareVersion | None = None,
    progress: Progress | None = None,
) -> Graph:
    """Write constants into `folder` and return the graph without them; `graph` is not changed.

    Data is converted block by block, whatever form it has. A folder that this function has written
    before is replaced as a whole, once the new one is complete.

    Args:
        graph: The program, which `verify` finds sound.
        folder: The folder; its parent must exist.
        larger_than: Only constants of more bytes than this, counted as in a flatbuffer, are written.
            Shape values always stay in the graph.
        producer: The program to name in the manifest.
        progress: Called after each block.

    Raises:
        TosaConvertError: "foreign-folder" if the folder has other files in it; "file-error";
            "duplicate-name" for two blocks of one name; "unsupported-shape" for a rank that an
            `.npy` file cannot have.
    """
    selected = list(_selected(graph, larger_than))
    _check(graph, selected)
    total = sum(npy.stored_bytes(row.constant) for row in selected)
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    names = _FileNames()
    entries = []
    with replacing(Path(folder)) as fresh:
        for row in selected:
            name = names.name(row.tensor.name, row.part)
            digest = _write_array(fresh / name, row, report)
            entries.append(
                Entry(
                    row.region,
                    row.block.name,
                    row.tensor.name,
                    row.part,
                    name,
                    row.constant.dtype.name,
                    row.shape,
                    row.constant.padding,
                    digest,
                )
            )
        by = producer and f"{producer.modifier} {producer.major}.{producer.minor}.{producer.micro}"
        text = manifest.dump(entries, by or "")
        _write_file(fresh / manifest.NAME, iter((memoryview(text),)))
    return _without(graph, selected)


def without(graph: Graph, *, larger_than: int = 0) -> Graph:
    """Return the graph that `write` returns, without writing anything."""
    return _without(graph, list(_selected(graph, larger_than)))


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

    def __str__(self) -> str:
        return f"{block_path(self.region, self.block.name)} tensor {quoted(self.tensor.name)}"


def _selected(graph: Graph, larger_than: int) -> Iterator[_Selected]:
    for region in graph.regions:
        for block in region.blocks:
            for tensor in block.tensors.values():
                data = tensor.data
                if data is not None and data.nbytes > larger_than:
                    yield _Selected(region.name, block, tensor, "data", data)
                scales = None if tensor.scale is None else tensor.scale.data
                if scales is not None and scales.nbytes > larger_than:
                    yield _Selected(region.name, block, tensor, "scale_data", scales)


def _check(graph: Graph, selected: list[_Selected]) -> None:
    """Raise what would make the folder unreadable, before anything is written."""
    findings = Findings()
    seen: set[tuple[str, str]] = set()
    for region in graph.regions:
        for block in region.blocks:
            if (region.name, block.name) in seen:
                message = "two blocks have these names, by which the manifest identifies constants"
                findings.add("duplicate-name", block_path(region.name, block.name), message)
            seen.add((region.name, block.name))
    for row in selected:
        if len(row.shape) > npy.MAX_RANK:
            message = f"it has {len(row.shape)} dimensions, an .npy file at most {npy.MAX_RANK}"
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
        if not stem or manifest.is_device(stem):
            stem = f"_{stem}"
        if part == "scale_data":
            stem += ".scale"
        unused = unused_name(
            stem, self.taken, separator="-", first=2, fold=str.lower, numbers=self.numbers
        )
        self.taken.add(unused.lower())
        return f"{unused}.npy"


def _write_array(path: Path, row: _Selected, report: Callable[[int], None]) -> str:
    """Write one file; returns the SHA-256 of its elements."""
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
        write_pieces(file, pieces)
        os.fsync(file.fileno())


def _without(graph: Graph, selected: list[_Selected]) -> Graph:
    """Return the graph without the data of the selected constants; it shares everything else."""
    return replace_data(graph, ((row.block, row.tensor.name, row.part, None) for row in selected))
