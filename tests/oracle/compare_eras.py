"""Compare programs of every era, read and upgraded, with the programs of TOSA 1.0 that they should be.

    python tests/oracle/compare_eras.py DIR

DIR is a corpus: `manifest.json` lists modules that released packages printed and encoded, each with the
module that it should become; flatbuffers of TOSA 0.80; what must be refused; and `expected/values.json`,
inputs and outputs of the expected modules. Every file is read as `tosa-flatbuffer upgrade` does. Its
program must be the expected one, up to names and the order of constants, and the reference model must
compute the stated outputs; programs that are the same are run once. A file that is refused must be
refused by name. Prints a table, then everything that differs. Exit code 1 on any difference, or if
nothing was compared.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

import tosa_convert as tc
from tosa_convert.formats.read import open_input, read_upgraded
from tosa_convert.graph.model import Block, Graph
from tosa_convert.io.options import ReadOptions

#: Codes of files that are refused by name.
BY_NAME: Final = frozenset(
    {
        "cannot-upgrade",
        "unsupported-operator",
        "unsupported-dtype",
        "unsupported-type",
        "constant-form",
    }
)
#: Text that its own release cannot read back: it lacks the operands of tosa.cond_if.
LOSSY: Final = "print the module in generic form"
_HEADS: Final = ("files", "read", "equal", "outputs equal", "refused by name", "wrong")


class Case(NamedTuple):
    """A file. name: of the values that it is run with. expected: the module of today, or ""."""

    era: str
    form: str
    file: str
    name: str
    expected: str


def cases(corpus: Path) -> Iterator[Case]:
    """Iterate over all files of a corpus."""
    manifest = json.loads((corpus / "manifest.json").read_text())
    for row in manifest["modules"]:
        for form, file in row["files"].items():
            yield Case(row["era"], form, file, row["case"], row["expected"])
    for row in manifest["bytecode_versions"]:
        form = f"version {row['version']}"
        yield Case("bytecode_versions", form, row["file"], row["case"], row["expected"])
    for row in manifest["flatbuffer_0_80"]:
        yield Case("fb080", "0.80", row["file"], row["name"], row.get("expected", ""))
    for row in manifest["tensorflow"]:
        for form in ("custom", "generic", "bytecode"):
            yield Case("tensorflow", form, row["files"][form], row["name"], "")
    for row in manifest["cannot_be_upgraded"]:
        for form, file in row["files"].items():
            yield Case("negative", form, file, row["name"], "")


def program(graph: Graph) -> Any:
    """Return what a graph computes.

    Without names, constants in place of their uses, identities left out.
    """
    regions = {region.name: region for region in graph.regions}

    def block_key(block: Block) -> Any:
        values: dict[str, Any] = {name: ("in", index) for index, name in enumerate(block.inputs)}
        operators: list[Any] = []
        for op in block.operators:
            if not op.spec.operands:
                values[op.outputs[0]] = _constant(block, op.outputs[0])
                continue
            if op.spec.name == "IDENTITY":
                values[op.outputs[0]] = values[op.inputs[0]]
                continue
            attributes = []
            for row in op.spec.attributes:
                value: Any = op.attributes[row.name]
                if row.kind == "region":
                    value = block_key(regions[value].blocks[0])
                elif row.kind == "element":
                    value = value[: block.tensors[op.inputs[0]].dtype.element_bytes]
                attributes.append(value)
            inputs = [values.get(name, ("variable", name)) for name in op.inputs]
            for index, name in enumerate(op.outputs):
                values[name] = ("op", len(operators), index)
            types = [_type(block, name) for name in op.outputs]
            operators.append((op.spec.name, tuple(inputs), tuple(attributes), tuple(types)))
        return (
            tuple(_type(block, name) for name in block.inputs),
            tuple(operators),
            tuple(values[name] for name in block.outputs),
        )

    return block_key(graph.main)


def _type(block: Block, name: str) -> Any:
    tensor = block.tensors.get(name)
    return block.shapes[name].rank if tensor is None else (tensor.dtype.name, tensor.shape)


def _constant(block: Block, name: str) -> Any:
    data = (block.tensors.get(name) or block.shapes[name]).data
    return "constant", _type(block, name), None if data is None else data.elements().tobytes()


def array(row: Any) -> Any:
    """Return values of the corpus: type, shape, elements."""
    name, shape, elements = row
    kind = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)
    made = np.array(elements).astype(kind).reshape(shape)
    return made.view(np.int8) if kind == np.uint8 else made


def _behind_resize(block: Block) -> set[str]:
    """Return the values that depend on a RESIZE."""
    found: set[str] = set()
    for op in block.operators:
        if op.spec.name == "RESIZE" or not found.isdisjoint(op.inputs):
            found.update(op.outputs)
    return found


class Runs:
    """Runs programs on the reference model, each once."""

    def __init__(self, corpus: Path) -> None:
        self.values = json.loads((corpus / "expected" / "values.json").read_text())
        self.known: dict[Any, str] = {}
        for model in json.loads((corpus / "manifest.json").read_text())["tensorflow"]:
            found = json.loads((corpus / model["files"]["run"]).read_text())
            (outputs,) = (rows for key, rows in found.items() if key.startswith("iree"))
            self.values[model["name"]] = {"inputs": [found["input"]], "outputs": outputs}

    def __call__(self, name: str, graph: Graph, key: Any) -> str:
        """ "" if the outputs are those of the corpus, "-" if it has none, else what differs."""
        row = self.values.get(name)
        if row is None:
            return "-"
        if (name, key) not in self.known:
            self.known[name, key] = self.difference(row, graph)
        return self.known[name, key]

    def difference(self, row: Any, graph: Graph) -> str:
        inputs = dict(zip(graph.main.inputs, map(array, row["inputs"]), strict=True))
        try:
            found = tc.run(graph, inputs)
        except tc.TosaConvertError as error:
            return f"does not run: {str(error).splitlines()[0]}"
        resized = _behind_resize(graph.main)
        for name, expected in zip(graph.main.outputs, map(array, row["outputs"]), strict=True):
            if name in resized and expected.dtype == np.int8:
                continue  # the compilers of 2023 and 2024 got the bilinear RESIZE of integers wrong
            result = np.asarray(found.outputs[name])
            if result.shape != expected.shape:
                return f"result of shape {result.shape}, expected {expected.shape}"
            wide = result.astype(np.float64), expected.astype(np.float64)
            if not np.allclose(*wide, rtol=1e-5, atol=2e-5, equal_nan=True):
                return f"result {result.reshape(-1)[:4]}, expected {expected.reshape(-1)[:4]}"
        return ""


def upgraded(path: Path) -> Graph:
    """Return the program of a file, as `tosa-flatbuffer upgrade` reads it."""
    return read_upgraded(open_input(path), ReadOptions())[0]


def _lacks_config(path: Path, case: Case, key: Any) -> bool:
    """Return whether a custom operator has only an identifier, as up to 2022.

    The expected module has more.
    """
    if case.name != "custom_op" or b"config" in path.read_bytes():
        return False
    ((name, _, attributes, _),) = key[1]
    return (name, attributes) == ("CUSTOM", ("my.op", "", b""))


def main(corpus: Path) -> int:
    """Compare all files; returns the exit code."""
    logging.disable(logging.WARNING)
    run, expected = Runs(corpus), {}
    table: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    notes = []
    for case in cases(corpus):
        counts = table[case.era, case.form]
        counts["files"] += 1
        try:
            graph = upgraded(corpus / case.file)
        except tc.TosaConvertError as error:
            named = all(row.code in BY_NAME for row in error.findings) or LOSSY in str(error)
            counts["refused by name" if named else "wrong"] += 1
            notes.append(f"{case.file}: {str(error).splitlines()[0]}")
            continue
        counts["read"] += 1
        key = program(graph)
        if case.expected:
            if case.expected not in expected:
                expected[case.expected] = program(upgraded(corpus / case.expected))
            if key == expected[case.expected] or _lacks_config(corpus / case.file, case, key):
                counts["equal"] += 1
            else:
                counts["wrong"] += 1
                notes.append(f"{case.file}: differs from {case.expected}")
        outcome = run(case.name, graph, key)
        if outcome == "":
            counts["outputs equal"] += 1
        elif outcome != "-":
            counts["wrong"] += 1
            notes.append(f"{case.file}: {outcome}")
    _print(table)
    print(*notes, sep="\n")
    total = sum(table.values(), Counter[str]())
    return int(total["wrong"] > 0 or not total["read"])


def _print(table: dict[tuple[str, str], Counter[str]]) -> None:
    rows = [*table.items(), (("all", ""), sum(table.values(), Counter[str]()))]
    print(f"{'era':24} {'form':10}", *(f"{head:>15}" for head in _HEADS))
    for (era, form), counts in rows:
        print(f"{era:24} {form:10}", *(f"{counts[head]:15}" for head in _HEADS))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
