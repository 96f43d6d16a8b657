"""Every tensor on the way, as arrays, in batches whose size is bounded.

The tensors of a batch become outputs of a graph of their own, cut at tensors of earlier batches that
lie on disk in the reference model's own form; those files go when the last operator that needs them
is past. So nothing is computed twice, and memory holds one batch (in the child) and one tensor (here).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.graph.extract import computed_tensors, extract
from tosa_convert.graph.model import Graph, operator_path
from tosa_convert.refmodel.arrays import Array, Slot, load_npy, save_npy, slots
from tosa_convert.refmodel.runner import TIMEOUT, Level, execute, session, write_model

#: Bytes of outputs in a batch unless the caller says otherwise.
BATCH_BYTES: Final = 256 << 20
#: Tensors in a batch: the model checks each output it writes in a list.
BATCH_TENSORS: Final = 256


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A tensor's arrays (values, and scales if it is block-scaled) and the operator that made it."""

    name: str
    arrays: dict[str, Array]
    index: int
    operator: str
    location: str


def select(graph: Graph, patterns: Sequence[str] = ("*",)) -> list[tuple[int, str]]:
    """The computed tensors that match a pattern, with their operators' indices, in order.

    Raises TosaConvertError("undefined-name") for a pattern that nothing matches.
    """
    computed = computed_tensors(graph)
    chosen: set[str] = set()
    for pattern in patterns:
        matching = [name for _, name in computed if fnmatch.fnmatchcase(name, pattern)]
        if not matching and any(name == pattern for _, name in computed):
            matching = [pattern]
        if not matching:
            raise fail(
                "undefined-name",
                f"pattern {pattern!r}",
                f"none of the {len(computed)} computed tensors matches it",
            )
        chosen.update(matching)
    return [(index, name) for index, name in computed if name in chosen]


def iterate(
    graph: Graph,
    inputs: Mapping[str, Array],
    patterns: Sequence[str] = ("*",),
    *,
    precise: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[Intermediate]:
    """The selected tensors of the main block, in topological order.

    inputs: as `match` returns them. batch_bytes: bytes of outputs that one run may hold.
    Raises TosaConvertError; see `run`.
    """
    wanted = select(graph, patterns)
    block = graph.main
    last_use = {name: i for i, op in enumerate(block.operators) for name in op.inputs}
    with session() as folder:
        files: dict[str, str] = {}  # tensor -> its file's stem, for tensors that can be cut at
        for name in block.inputs:
            stem = f"t{len(files)}"
            for slot in slots(block, name):
                save_npy(folder / _file(stem, slot), slot, inputs[slot.key])
            files[name] = stem
        count = len(files)
        for batch in _batches(graph, wanted, batch_bytes):
            names = [name for _, name in batch]
            # In precise mode values are not in the tensors' own types and cannot be fed back.
            cuts = [] if precise else [name for name in files if name not in block.inputs]
            part = _part(graph, names, cuts)
            outs = [f"t{count + i}" for i in range(len(names))]
            count += len(names)
            write_model(part, folder)
            execute(
                part,
                folder,
                precise=precise,
                level=level,
                timeout=timeout,
                ins=[f"{files[name]}.npy" for name in part.main.inputs],
                outs=[f"{stem}.npy" for stem in outs],
            )
            for (index, name), stem in zip(batch, outs, strict=True):
                op = block.operators[index]
                yield Intermediate(
                    name,
                    {s.key: load_npy(folder / _file(stem, s), s) for s in slots(block, name)},
                    index,
                    operator_path("", index, op).strip(),
                    op.location,
                )
                files[name] = stem
            done = batch[-1][0]
            for name in [n for n in files if last_use.get(n, -1) <= done and n not in block.inputs]:
                for slot in slots(block, name):
                    (folder / _file(files[name], slot)).unlink()
                del files[name]


def _file(stem: str, slot: Slot) -> str:
    return f"{stem}.npy" if slot.key == slot.tensor else f"{stem}_scale.npy"


def _part(graph: Graph, names: list[str], cuts: list[str]) -> Graph:
    """The batch's own graph; cuts that it does not need are left out."""
    from tosa_convert.graph.extract import needed_operators

    kept = needed_operators(graph, names, cuts)
    used = {name for index in kept for name in graph.main.operators[index].inputs}
    return extract(graph, names, [name for name in cuts if name in used])


def _batches(
    graph: Graph, wanted: list[tuple[int, str]], limit: int
) -> Iterator[list[tuple[int, str]]]:
    batch: list[tuple[int, str]] = []
    size = 0
    for index, name in wanted:
        nbytes = sum(slot.nbytes for slot in slots(graph.main, name))
        if batch and (size + nbytes > limit or len(batch) >= BATCH_TENSORS):
            yield batch
            batch, size = [], 0
        batch.append((index, name))
        size += nbytes
    if batch:
        yield batch


def folder_name(name: str, taken: set[str]) -> str:
    """A file name for a tensor's array: its own name where that is safe, made unique."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).strip(".") or "tensor"
    safe = safe[:120]
    candidate, number = safe, 1
    while candidate.lower() in taken:
        candidate, number = f"{safe}.{number}", number + 1
    taken.add(candidate.lower())
    return candidate


def save_to_folder(items: Iterator[Intermediate], folder: Path) -> list[dict[str, object]]:
    """Write each array as an `.npy` and `manifest.json` with operators and locations; the rows."""
    import json

    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    taken: set[str] = set()
    for item in items:
        for key, array in item.arrays.items():
            file = folder_name(key, taken) + ".npy"
            np.save(folder / file, array)
            rows.append(
                {
                    "name": key,
                    "file": file,
                    "dtype": str(array.dtype),
                    "shape": list(array.shape),
                    "operator": item.operator,
                    "location": item.location,
                }
            )
    (folder / "manifest.json").write_text(json.dumps({"tensors": rows}, indent=1) + "\n")
    return rows
