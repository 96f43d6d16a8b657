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
from tosa_convert.golden.array_io import Array, Lazy, Slot, load_npy, save_npy, slots
from tosa_convert.golden.control_flow import hidden, steps
from tosa_convert.golden.runner import (
    TIMEOUT,
    Level,
    execute,
    input_slots,
    run,
    session,
    write_model,
)
from tosa_convert.graph.extract import computed_tensors, extract, extract_from, last_uses
from tosa_convert.graph.model import Graph, operator_path

#: Bytes of outputs in a batch unless the caller says otherwise.
BATCH_BYTES: Final = 256 << 20
#: Tensors in a batch: the model checks each output it writes in a list.
BATCH_TENSORS: Final = 256


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A tensor's arrays (values, and scales if it is block-scaled) and the operator that made it.

    name: inside of a region with the region's label before it, such as `y/body[2]/t`.
    """

    name: str
    arrays: dict[str, Array]
    index: int
    operator: str
    location: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors that were computed in one run, as (operator's index, name).

    golden: their arrays by key, those of the graph's inputs, and of all earlier tensors that these
        tensors' operators take; read on demand, and only until the next batch is asked for.
    """

    tensors: list[tuple[int, str]]
    golden: Lazy
    nbytes: int


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
    iterations: int = 0,
) -> Iterator[Intermediate]:
    """The selected tensors of the main block, in topological order.

    inputs: as `match` returns them. batch_bytes: bytes of outputs that one run may hold.
    iterations: if not 0, behind the results of an operator with regions come all tensors of the
        branch that is taken, or of the first so many iterations of the loop; see `regions.steps`
        for where that is not possible.
    Raises TosaConvertError; see `run`.
    """
    block = graph.main
    options = {"precise": precise, "level": level, "timeout": timeout, "batch_bytes": batch_bytes}
    for batch in batches(graph, inputs, select(graph, patterns), **options):  # type: ignore[arg-type]
        seen: set[int] = set()
        for index, name in batch.tensors:
            op = block.operators[index]
            yield Intermediate(
                name,
                {slot.key: batch.golden[slot.key] for slot in slots(block, name)},
                index,
                operator_path("", index, op).strip(),
                op.location,
            )
            if not (iterations and op.spec.regions) or index in seen or precise:
                continue
            seen.add(index)
            label = f"{op.outputs[0]}/"
            operands = _operands(graph, index, batch.golden, timeout)
            for step in steps(graph, index, operands, iterations, timeout):
                if not computed_tensors(step.graph):
                    continue
                inner = iterate(step.graph, step.inputs, iterations=iterations, **options)  # type: ignore[arg-type]
                for item in inner:
                    head = f"{label}{step.label}/"
                    yield Intermediate(
                        head + item.name,
                        {head + key: array for key, array in item.arrays.items()},
                        index,
                        f"{operator_path('', index, op).strip()} {step.label} {item.operator}",
                        item.location,
                    )


def _operands(
    graph: Graph, index: int, known: Mapping[str, Array], timeout: float
) -> Mapping[str, Array]:
    """Values for an operator's operands, where the patterns left some out."""
    block = graph.main
    names = {name for _, name in computed_tensors(graph)}
    missing = [
        name
        for name in dict.fromkeys(block.operators[index].inputs)
        if name in names and any(slot.key not in known for slot in slots(block, name))
    ]
    if not missing:
        return known
    part = extract(graph, missing)
    given = {slot.key: known[slot.key] for slot in input_slots(part)}
    return {**known, **run(part, given, timeout=timeout).outputs}


def batches(
    graph: Graph,
    inputs: Mapping[str, Array],
    wanted: list[tuple[int, str]],
    *,
    precise: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[Batch]:
    """The wanted tensors, as `select` returns them, computed `batch_bytes` at a time.

    Nothing is held in memory here: a batch reads its arrays from files. See `iterate`.
    """
    block = graph.main
    last_use = last_uses(block)
    with session() as folder:
        files: dict[str, str] = {}  # tensor -> its file's stem, for tensors that can be cut at
        for name in block.inputs:
            stem = f"t{len(files)}"
            for slot in slots(block, name):
                save_npy(folder / _file(stem, slot), slot, inputs[slot.key])
            files[name] = stem
        count = len(files)
        for batch, nbytes in _split(graph, wanted, batch_bytes):
            names = [name for _, name in batch]
            # In precise mode values are not in the tensors' own types and cannot be fed back.
            cuts = [] if precise else [name for name in files if name not in block.inputs]
            part = extract_from(graph, names, cuts)
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
            files.update(zip(names, outs, strict=True))
            yield Batch(batch, _golden(graph, folder, files, inputs), nbytes)
            done = batch[-1][0]
            for name in [n for n in files if last_use.get(n, -1) <= done and n not in block.inputs]:
                for slot in slots(block, name):
                    (folder / _file(files[name], slot)).unlink()
                del files[name]


def _golden(graph: Graph, folder: Path, files: dict[str, str], inputs: Mapping[str, Array]) -> Lazy:
    found = {
        slot.key: (slot, folder / _file(stem, slot))
        for name, stem in files.items()
        if name not in graph.main.inputs
        for slot in slots(graph.main, name)
    }

    def read(key: str) -> Array:
        if key in inputs:
            return inputs[key]
        slot, path = found[key]
        return load_npy(path, slot)

    return Lazy((*inputs, *found), read)


def _file(stem: str, slot: Slot) -> str:
    return f"{stem}.npy" if slot.key == slot.tensor else f"{stem}_scale.npy"


def _split(
    graph: Graph, wanted: list[tuple[int, str]], limit: int
) -> Iterator[tuple[list[tuple[int, str]], int]]:
    batch: list[tuple[int, str]] = []
    size = 0
    for index, name in wanted:
        nbytes = sum(slot.nbytes for slot in slots(graph.main, name))
        full = size + nbytes > limit or len(batch) >= BATCH_TENSORS
        if batch and full and batch[-1][0] != index:  # the results of an operator stay together
            yield batch, size
            batch, size = [], 0
        batch.append((index, name))
        size += nbytes
    if batch:
        yield batch, size


def folder_name(name: str, taken: set[str]) -> str:
    """A file name for a tensor's array: its own name where that is safe, made unique."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).strip(".") or "tensor"
    safe = safe[:120]
    candidate, number = safe, 1
    while candidate.lower() in taken:
        candidate, number = f"{safe}.{number}", number + 1
    taken.add(candidate.lower())
    return candidate


def not_collected(
    graph: Graph, iterations: int = 0, *, precise: bool = False
) -> list[dict[str, object]]:
    """What `iterate` does not give: a row for each operator with regions, and why.

    tensors: those that the regions compute, by region.
    """
    rows: list[dict[str, object]] = []
    for index, op in enumerate(graph.main.operators):
        if not op.spec.regions:
            continue
        reason, tensors = hidden(graph, op)
        if precise:
            reason = "a run in FP64 cannot be cut at a region"
        if not iterations:
            reason = reason or "regions were not asked for"
        elif op.spec.name == "WHILE_LOOP":
            reason = reason or f"the loop's first {iterations} iterations at most"
        if reason:
            rows.append(
                {
                    "operator": operator_path("", index, op).strip(),
                    "location": op.location,
                    "reason": reason,
                    "tensors": tensors,
                }
            )
    return rows


def save_to_folder(
    items: Iterator[Intermediate], folder: Path, missing: Sequence[Mapping[str, object]] = ()
) -> list[dict[str, object]]:
    """Write each array as an `.npy` and `manifest.json` with operators and locations; the rows.

    missing: what `not_collected` says, for the manifest.
    """
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
    (folder / "manifest.json").write_text(
        json.dumps({"tensors": rows, "not_collected": list(missing)}, indent=1) + "\n"
    )
    return rows
