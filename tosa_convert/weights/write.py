"""Graph -> a folder of `.npy` files, one a constant, and a manifest."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError
from tosa_convert.files import write_pieces
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Block, Graph, SoftwareVersion, Tensor, block_path, quoted
from tosa_convert.weights import manifest, npy
from tosa_convert.weights.folder import replacing
from tosa_convert.weights.manifest import Entry, Part
from tosa_convert.weights.replace_data import with_data, with_tensors

#: Called with the bytes of elements written so far, and of all.
Progress = Callable[[int, int], None]

#: Characters of a tensor's name that its file's name has.
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
    """Put constants into `folder` and return the graph without them; `graph` is not changed.

    larger_than: only constants of more bytes than this, as they are in a flatbuffer. 0 is all that
        have any. The sizes of a TosaShape always stay in the graph.
    producer: named in the manifest.
    progress: called after each block of a file.

    What is written goes through memory a block at a time, whatever form the constants have. A folder
    that was written by this function is replaced whole, once the new one is complete.

    Raises TosaConvertError: "foreign-folder" if the folder holds anything else, "file-error", and
    what makes a constant impossible to store.
    """
    chosen = list(_chosen(graph, larger_than))
    _check(graph, chosen)
    total = sum(npy.stored_bytes(row.constant) for row in chosen)
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    names = _Names()
    entries = []
    with replacing(Path(folder)) as fresh:
        for row in chosen:
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
        text = manifest.dump(
            entries, f"{producer.modifier} {_release(producer)}" if producer else ""
        )
        _write_file(fresh / manifest.NAME, iter((memoryview(text),)))
    return _without(graph, chosen)


def without(graph: Graph, *, larger_than: int = 0) -> Graph:
    """The graph as `write` returns it, before anything is written."""
    return _without(graph, list(_chosen(graph, larger_than)))


def _release(version: SoftwareVersion) -> str:
    return f"{version.major}.{version.minor}.{version.micro}"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A constant that goes into a file."""

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


def _chosen(graph: Graph, larger_than: int) -> Iterator[_Chosen]:
    for region in graph.regions:
        for block in region.blocks:
            for tensor in block.tensors.values():
                data = tensor.data
                if data is not None and data.nbytes > larger_than:
                    yield _Chosen(region.name, block, tensor, "data", data)
                scales = None if tensor.scale is None else tensor.scale.data
                if scales is not None and scales.nbytes > larger_than:
                    yield _Chosen(region.name, block, tensor, "scale_data", scales)


def _check(graph: Graph, chosen: list[_Chosen]) -> None:
    """Raise what would make the folder unreadable, before anything is written."""
    findings = []
    places: dict[tuple[str, str], Block] = {}
    for region in graph.regions:
        for block in region.blocks:
            if places.setdefault((region.name, block.name), block) is not block:
                findings.append(
                    Finding(
                        "duplicate-name",
                        block_path(region.name, block.name),
                        "two blocks have these names, and the manifest tells constants by them",
                    )
                )
    for row in chosen:
        if row.part == "data" and row.tensor.element_count() != row.constant.count:
            shape = row.tensor.shape
            findings.append(
                Finding(
                    "data-length",
                    str(row),
                    f"{row.constant.count} elements of data for shape "
                    f"{'unranked' if shape is None else list(shape)}",
                    "constant data needs a static shape and as many elements as it has",
                )
            )
        elif len(row.shape) > npy.MAX_RANK:
            findings.append(
                Finding(
                    "unsupported-shape",
                    str(row),
                    f"it has {len(row.shape)} dimensions, an .npy file at most {npy.MAX_RANK}",
                )
            )
        elif row.constant.holds_int4_minus_8():
            findings.append(
                Finding(
                    "int4-minus-8",
                    str(row),
                    "an INT4 element is -8; TOSA's INT4 goes from -7 to 7 and readers corrupt -8",
                    "requantise the weight to -7..7",
                )
            )
    if findings:
        raise TosaConvertError(findings[:MAX_FINDINGS])


class _Names:
    """File names that tell the tensor, that every system can have, and that differ in lower case."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        #: How often a name was wanted, so that a thousand equal ones do not take a million looks.
        self.wanted: dict[str, int] = {}

    def name(self, tensor: str, part: Part) -> str:
        stem = _UNSAFE.sub("_", tensor)[:NAME_LENGTH].lstrip(".+-").rstrip(".")
        if not stem or manifest.is_device(stem):
            stem = f"_{stem}"
        if part == "scale_data":
            stem += ".scale"
        candidate = stem
        while candidate.lower() in self.taken:
            count = self.wanted.get(stem.lower(), 1) + 1
            self.wanted[stem.lower()] = count
            candidate = f"{stem}-{count}"
        self.taken.add(candidate.lower())
        return f"{candidate}.npy"


def _write_array(path: Path, row: _Chosen, report: Callable[[int], None]) -> str:
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


def _without(graph: Graph, chosen: list[_Chosen]) -> Graph:
    """The graph with the chosen constants' data gone; all else is shared."""
    changed: dict[int, dict[str, Tensor]] = {}
    for row in chosen:
        tensors = changed.setdefault(id(row.block), {})
        tensor = tensors.get(row.tensor.name, row.tensor)
        tensors[row.tensor.name] = with_data(tensor, row.part, None)
    return with_tensors(graph, changed)
