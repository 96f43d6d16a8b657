"""Every tensor between inputs and outputs, as arrays, in batches of bounded size.

The tensors of a batch become outputs of a graph of their own, cut at tensors of earlier batches that
lie on disk in the reference model's own form; such a file is removed after the last operator that
needs it. So nothing is computed twice, and memory holds one batch (in the child) and one tensor (here).
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail, suggest
from tosa_convert.golden.arrays.by_name import Array, LazyArrays
from tosa_convert.golden.arrays.scratch import OutputFolder, scratch_folder
from tosa_convert.golden.arrays.slots import load_npy, save_npy, slot_file, slots
from tosa_convert.golden.running.control_flow import (
    region_runs,
    tensors_in_regions,
    why_not_runnable,
)
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.run_graph import execute, run_graph, write_model
from tosa_convert.golden.running.run_options import DEFAULT_RUN, RunOptions
from tosa_convert.graph.extract import computed_tensors, extract, extract_from, last_uses
from tosa_convert.graph.model import Graph, operator_path, require_graphs
from tosa_convert.graph.names import unused_name

#: Bytes of outputs in a batch unless the caller says otherwise.
BATCH_BYTES: Final = 256 << 20
#: Tensors in a batch: for each output that it writes, the model searches a list of all of them.
BATCH_TENSORS: Final = 256
#: Characters of a tensor's name that its file's name repeats, and bytes: systems take 255 in all.
_NAME_CHARACTERS: Final = 120
_NAME_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A tensor's arrays (values, and scales if it is block-scaled) and the operator that made it.

    name: inside a region, the region's label comes first, as in `y/body[2]/t`.
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
    golden: LazyArrays
    nbytes: int


def select(graph: Graph, patterns: Sequence[str] = ("*",)) -> list[tuple[int, str]]:
    """Return the computed tensors that match a pattern, with their operators' indices, in order.

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
                suggest(pattern, [name for _, name in computed]),
            )
        chosen.update(matching)
    return [(index, name) for index, name in computed if name in chosen]


def iterate_tensors(
    graph: Graph,
    inputs: Mapping[str, Array],
    patterns: Sequence[str] = ("*",),
    options: RunOptions = DEFAULT_RUN,
    *,
    batch_bytes: int = BATCH_BYTES,
    iterations: int = 0,
) -> Iterator[Intermediate]:
    """Iterate over the selected tensors of the main block, in topological order.

    Args:
        graph: the program.
        inputs: an array for each input, in its type and shape.
        patterns: of names, such as `layer_1*`.
        options: how the reference model runs; `bounds` is not used.
        batch_bytes: bytes of tensors that one run computes.
        iterations: if not 0, after the results of an operator with regions come all tensors of the
            branch that is taken, or of the loop's first iterations, this many. `not_collected` says
            where that is not possible.

    Raises:
        TosaConvertError: `undefined-name` for a pattern that nothing matches; else as `golden.run`.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> inputs = golden.input_arrays(graph, None, random=1)
        >>> [tensor.operator for tensor in golden.iterate_tensors(graph, inputs)]
        ['operator #0 ABS', 'operator #1 ABS', 'operator #2 ABS']
    """
    require_graphs(graph)
    block = graph.main
    expanded: set[int] = set()
    wanted = select(graph, patterns)
    for batch in batches(graph, inputs, wanted, options, batch_bytes=batch_bytes):
        for index, name in batch.tensors:
            op = block.operators[index]
            yield Intermediate(
                name,
                {slot.key: batch.golden[slot.key] for slot in slots(block, name)},
                index,
                operator_path("", index, op).strip(),
                op.location,
            )
            if not (iterations and op.spec.regions) or index in expanded or options.precise:
                continue
            expanded.add(index)
            operands = _operands(graph, index, batch.golden, options)
            yield from _inside(graph, index, operands, options, batch_bytes, iterations)


def _inside(
    graph: Graph,
    index: int,
    operands: Mapping[str, Array],
    options: RunOptions,
    batch_bytes: int,
    iterations: int,
) -> Iterator[Intermediate]:
    """Iterate over the tensors that the regions of an operator compute."""
    op = graph.main.operators[index]
    path = operator_path("", index, op).strip()
    for region in region_runs(graph, index, operands, iterations, options):
        if not computed_tensors(region.graph):
            continue
        prefix = f"{op.outputs[0]}/{region.label}/"
        for tensor in iterate_tensors(
            region.graph,
            region.inputs,
            options=options,
            batch_bytes=batch_bytes,
            iterations=iterations,
        ):
            yield Intermediate(
                prefix + tensor.name,
                {prefix + key: array for key, array in tensor.arrays.items()},
                index,
                f"{path} {region.label} {tensor.operator}",
                tensor.location,
            )


def _operands(
    graph: Graph, index: int, values: Mapping[str, Array], options: RunOptions
) -> Mapping[str, Array]:
    """Values for an operator's operands, where the patterns left some out."""
    block = graph.main
    names = {name for _, name in computed_tensors(graph)}
    missing = [
        name
        for name in dict.fromkeys(block.operators[index].inputs)
        if name in names and any(slot.key not in values for slot in slots(block, name))
    ]
    if not missing:
        return values
    part = extract(graph, missing)
    given = {slot.key: values[slot.key] for slot in input_slots(part)}
    return {**values, **run_graph(part, given, options)}


def batches(
    graph: Graph,
    inputs: Mapping[str, Array],
    wanted: list[tuple[int, str]],
    options: RunOptions = DEFAULT_RUN,
    *,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[Batch]:
    """Iterate over the wanted tensors, as `select` returns them, computed `batch_bytes` at a time.

    Nothing is held in memory here: a batch reads its arrays from files. See `iterate_tensors`.
    """
    block = graph.main
    last_use = last_uses(block)
    with scratch_folder() as folder:
        stems: dict[str, str] = {}  # tensor -> its file's stem, for tensors that can be cut at
        for name in block.inputs:
            stem = f"t{len(stems)}"
            for slot in slots(block, name):
                save_npy(folder / slot_file(stem, slot), slot, inputs[slot.key])
            stems[name] = stem
        count = len(stems)
        for batch, nbytes in _split(graph, wanted, batch_bytes):
            names = [name for _, name in batch]
            # In precise mode values are not in the tensors' own types and cannot be fed back.
            cuts = [] if options.precise else [name for name in stems if name not in block.inputs]
            part = extract_from(graph, names, cuts)
            outs = [f"t{count + i}" for i in range(len(names))]
            count += len(names)
            if not options.uses_numpy:
                write_model(part, folder)
            execute(
                part,
                folder,
                options,
                ins=[f"{stems[name]}.npy" for name in part.main.inputs],
                outs=[f"{stem}.npy" for stem in outs],
            )
            stems.update(zip(names, outs, strict=True))
            yield Batch(batch, _golden_arrays(graph, folder, stems, inputs), nbytes)
            done = batch[-1][0]
            for name in [n for n in stems if last_use.get(n, -1) <= done and n not in block.inputs]:
                for slot in slots(block, name):
                    (folder / slot_file(stems[name], slot)).unlink()
                del stems[name]


def _golden_arrays(
    graph: Graph, folder: Path, stems: dict[str, str], inputs: Mapping[str, Array]
) -> LazyArrays:
    files = {
        slot.key: (slot, folder / slot_file(stem, slot))
        for name, stem in stems.items()
        if name not in graph.main.inputs
        for slot in slots(graph.main, name)
    }

    def read(key: str) -> Array:
        if key in inputs:
            return inputs[key]
        slot, path = files[key]
        return load_npy(path, slot)

    return LazyArrays((*inputs, *files), read)


def _split(
    graph: Graph, wanted: list[tuple[int, str]], limit: int
) -> Iterator[tuple[list[tuple[int, str]], int]]:
    """Split the tensors into groups of at most `limit` bytes, where single tensors allow it."""
    batch: list[tuple[int, str]] = []
    size = 0
    for index, name in wanted:
        nbytes = sum(slot.nbytes for slot in slots(graph.main, name))
        is_full = size + nbytes > limit or len(batch) >= BATCH_TENSORS
        if batch and is_full and batch[-1][0] != index:  # an operator's results stay together
            yield batch, size
            batch, size = [], 0
        batch.append((index, name))
        size += nbytes
    if batch:
        yield batch, size


def safe_file_name(name: str, taken: set[str]) -> str:
    """Return a file name for a tensor's array: its own name where that is safe, made unique."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).strip(".") or "tensor"
    safe = safe[:_NAME_CHARACTERS].encode()[:_NAME_BYTES].decode(errors="ignore")
    unused = unused_name(safe, taken, separator=".", fold=str.lower)
    taken.add(unused.lower())
    return unused


def not_collected(
    graph: Graph, iterations: int = 0, *, precise: bool = False
) -> list[dict[str, object]]:
    """Return a row, with the reason, for each operator whose regions' tensors `iterate_tensors` omits.

    Each row has "operator", "location", "reason" and "tensors": those that the regions compute.
    """
    rows: list[dict[str, object]] = []
    for index, op in enumerate(graph.main.operators):
        if not op.spec.regions:
            continue
        reason = why_not_runnable(graph, op)
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
                    "tensors": tensors_in_regions(graph, op),
                }
            )
    return rows


def save_to_folder(
    tensors: Iterator[Intermediate],
    folder: Path,
    missing: Sequence[Mapping[str, object]] = (),
) -> list[dict[str, object]]:
    """Write each array as an `.npy` and `manifest.json` with operators and locations.

    missing: what `not_collected` returned, for the manifest.
    Returns the manifest's rows.
    Raises TosaConvertError; no file of this call is left then.
    """
    rows: list[dict[str, object]] = []
    taken: set[str] = set()
    with OutputFolder(folder) as target:
        for tensor in tensors:
            for key, array in tensor.arrays.items():
                file = safe_file_name(key, taken) + ".npy"
                target.write_array(file, array)
                rows.append(
                    {
                        "name": key,
                        "file": file,
                        "dtype": str(array.dtype),
                        "shape": list(array.shape),
                        "operator": tensor.operator,
                        "location": tensor.location,
                    }
                )
        manifest = {"tensors": rows, "not_collected": list(missing)}
        target.write("manifest.json", [json.dumps(manifest, indent=1).encode() + b"\n"])
    return rows
