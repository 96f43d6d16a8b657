"""ONNX's own tests of its operators through the ONNX frontend, and on the reference model.

    python tests/frontends/onnx_node_tests.py STATE.jsonl [--only REGEX] [--again CLASS,...]

The tests come with the package onnx. Each ends in one class:

    agrees       the program gives what ONNX expects, within its tolerances (1e-3 and 1e-5 at least)
    different    it gives something else
    not-lowered  an operator does not lower; `why` names it
    refused      the converter or the reader refuses the model by name
    not-run      the reference model refuses the program or the data
    crashed      the converter ended, or took too long
    no-tensor    strings, sequences, optionals, complex or float8 tensors: TOSA has none of them

Each test runs in a fork of one process that has imported the converter. STATE.jsonl gets one line
for each test; a test that has a line is not run again, so the script can be stopped at any time.

Sizes, axes and the like may be inputs of these tests, and TOSA wants constants. A test that does not
lower is tried once more with its inputs of rank 0 and 1 as constants. The first input is one of these
only if it is a size or a condition.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import json
import os
import re
import select
import signal
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

#: ONNX's numbers of the element types that TOSA or a narrowing can hold.
HELD = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 21, 22}
#: Tests whose first input is a size or a condition.
FIRST_IS_CONSTANT = re.compile(
    "test_(constantofshape|range_|if$|loop11|melweight|(blackman|hamming|hann)window)"
)
#: Seconds for one test.
TIME_LIMIT = 60
CLASSES = ("agrees", "different", "not-lowered", "refused", "not-run", "crashed", "no-tensor")
Row = dict[str, Any]


def test_cases() -> dict[str, Any]:
    """Name -> test, for all of ONNX's tests of operators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return {case.name: case for case in collect_testcases(None)}


def not_tensors(model: Any) -> str:
    """Why TOSA cannot hold an input or output of a model, or "" if it can."""
    for value in (*model.graph.input, *model.graph.output):
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return str(kind)
        if value.type.tensor_type.elem_type not in HELD:
            return f"element type {value.type.tensor_type.elem_type}"
    return ""


def with_constants(model: Any, inputs: list[Any], first: bool) -> tuple[Any, list[Any]] | None:
    """The model with its inputs of rank 0 and 1 as constants, and what is left.

    The first input stays unless `first`: that is so if it is a size or a condition.
    """
    import onnx

    model = type(model).FromString(model.SerializeToString())
    left, kept = [], []
    for index, (value, array) in enumerate(zip(model.graph.input, inputs, strict=True)):
        if (index or first) and np.ndim(array) <= 1:
            tensor = onnx.numpy_helper.from_array(np.asarray(array), value.name)
            model.graph.initializer.append(tensor)
        else:
            left.append(value)
            kept.append(array)
    if len(kept) == len(inputs):
        return None
    del model.graph.input[:]
    model.graph.input.extend(left)
    return model, kept


def as_program_has_it(array: Any, wanted: Any) -> Any:
    """The array in the program's element type; unsigned numbers keep their bits."""
    if array.dtype == wanted:
        return array
    if array.dtype.kind == "u" and array.dtype.itemsize == np.dtype(wanted).itemsize:
        return array.view(wanted)
    return array.astype(wanted)


def difference(want: Any, got: Any, rtol: float, atol: float) -> str:
    """How two arrays differ beyond the tolerances, or ""."""
    want = np.asarray(want)
    if want.shape != got.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if want.dtype.kind == "u" and got.dtype.kind == "i" and want.itemsize == got.itemsize:
        got = got.view(want.dtype)
    expected, found = want.astype(np.float64), got.astype(np.float64)
    short = want.dtype.itemsize == 2 and want.dtype.kind not in "iub"
    rtol, atol = max(rtol, 4e-3 if short else 1e-3), max(atol, 1e-5)
    bad = ~np.isclose(expected, found, rtol=rtol, atol=atol, equal_nan=True)
    if not bad.any():
        return ""
    example = f"{found[bad].flat[0]} instead of {expected[bad].flat[0]}"
    return f"{bad.sum()} of {bad.size} {want.dtype}, e.g. {example}"


def attempt(model: Any, inputs: list[Any], outputs: list[Any], case: Any) -> tuple[str, str]:
    """The class of one model, and why."""
    import onnx

    import tosa_convert as tc
    from tosa_convert.frontends.converters import onnx_model
    from tosa_convert.frontends.finish import finish
    from tosa_convert.frontends.request import Request
    from tosa_convert.options import ReadOptions

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(model, folder / "model.onnx")
        given = zip(model.graph.input, inputs, strict=True)
        request = Request(
            frontend="onnx",
            source=str(folder / "model.onnx"),
            input_shapes={v.name: np.shape(a) for v, a in given if dynamic(v)},
        )
        try:
            interface = onnx_model.lower(request, folder)
            options = ReadOptions(narrow=("i64", "f64"), copy=True)
            graph = finish(request, interface, folder, options)
        except tc.TosaConvertError as error:
            codes = {finding.code for finding in error.findings}
            text = "; ".join(f"{f.code}: {f.where}: {f.message}" for f in error.findings)
            return "not-lowered" if codes == {"not-lowered"} else "refused", text[:400]
        except (
            Exception
        ) as error:  # The row says it; the report counts it as a crash of the converter.
            return "crashed", f"{type(error).__name__}: {error}"[:400]
    return run(graph, inputs, outputs, case)


def dynamic(value: Any) -> bool:
    """Whether an input has a size that is not fixed."""
    shape = value.type.tensor_type.shape
    return any(not dim.HasField("dim_value") for dim in shape.dim)


def run(graph: Any, inputs: list[Any], outputs: list[Any], case: Any) -> tuple[str, str]:
    """Run a program on the reference model and compare."""
    import tosa_convert as tc
    from tosa_convert import golden

    feed = {
        name: as_program_has_it(np.asarray(array), graph.main.tensors[name].dtype.numpy)
        for name, array in zip(graph.main.inputs, inputs, strict=True)
    }
    try:
        found = tc.run(graph, feed, golden.RunOptions(timeout=60)).outputs
    except tc.TosaConvertError as error:
        return "not-run", str(error)[:400]
    for name, want in zip(graph.main.outputs, outputs, strict=True):
        text = difference(want, found[name], case.rtol, case.atol)
        if text:
            return "different", f"{name}: {text}"
    return "agrees", ""


def array_of(value: Any) -> Any:
    import onnx

    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def one(case: Any, constants_only: bool) -> Row:
    """The line of one test."""
    row: Row = {"name": case.name, "operators": sorted({n.op_type for n in case.model.graph.node})}
    why = not_tensors(case.model)
    if why:
        return {**row, "class": "no-tensor", "why": why}
    arrays = [[array_of(value) for value in values] for values in case.data_sets[0]]
    inputs, outputs = arrays
    start = time.process_time()
    kind, why = "crashed", "the process ended"
    if not constants_only:
        kind, why = attempt(case.model, inputs, outputs, case)
    if kind not in ("agrees", "different"):
        first = FIRST_IS_CONSTANT.match(case.name) is not None
        changed = with_constants(case.model, inputs, first)
        if changed is not None:
            again, why_again = attempt(*changed, outputs, case)
            if again in ("agrees", "different") or kind == "crashed":
                kind, why, row["constants"] = again, why_again, True
    return {**row, "class": kind, "why": why, "seconds": round(time.process_time() - start, 2)}


def in_fork(case: Any, constants_only: bool) -> Row:
    """The line of one test, made in a fork of this process, which may crash or hang."""
    reader, writer = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            row = one(case, constants_only)
        except BaseException as error:
            row = {"name": case.name, "class": "crashed", "why": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(row).encode())
        os._exit(0)
    os.close(writer)
    received = b""
    while select.select([reader], [], [], max(0, start + TIME_LIMIT - time.monotonic()))[0]:
        part = os.read(reader, 1 << 16)
        if not part:
            break
        received += part
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if received:
        found: Row = json.loads(received)
        return found
    if not constants_only:
        return in_fork(case, True)
    return {"name": case.name, "class": "crashed", "why": "the process ended or took too long"}


def run_tests(cases: list[Any], state: Path) -> None:
    """Run tests; each gets its line as soon as it is done."""
    warnings.simplefilter("ignore")
    # Imported once for all forks.
    importlib.import_module("tosa_convert.frontends.converters.onnx_model")
    importlib.import_module("onnxruntime")
    with open(state, "a", encoding="utf-8") as file:
        for case in cases:
            file.write(json.dumps(in_fork(case, False)) + "\n")
            file.flush()


def read_state(state: Path) -> dict[str, Row]:
    """The lines that a state file has, the last of each test."""
    if not state.exists():
        return {}
    rows = map(json.loads, state.read_text(encoding="utf-8").splitlines())
    return {row["name"]: row for row in rows}


def report(rows: list[Row]) -> str:
    """The counts, a table by operator, and why each test that does not agree does not."""
    counts = collections.Counter(row["class"] for row in rows)
    lines = [
        f"{len(rows)} tests, {len(rows) - counts['no-tensor']} with tensors that TOSA can hold",
        *(f"  {kind:12}{counts[kind]:6}" for kind in CLASSES),
        "",
        "| operator | agree | of |",
        "|---|---|---|",
    ]
    by_operator: dict[str, collections.Counter[str]] = {}
    for row in rows:
        operators = row.get("operators", [])
        key = operators[0] if len(operators) == 1 else "several"
        by_operator.setdefault(key, collections.Counter())[row["class"]] += 1
    for operator, found in sorted(by_operator.items()):
        total = found.total() - found["no-tensor"]
        if total:
            lines.append(f"| {operator} | {found['agrees']} | {total} |")
    lines.append("")
    for kind in CLASSES[1:-1]:
        for row in rows:
            if row["class"] == kind:
                lines.append(f"{kind}: {row['name']}: {row['why'][:160]}".replace("\n", " "))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("state", type=Path)
    parser.add_argument("--only", default="", help="tests whose name has a match of this pattern")
    parser.add_argument("--names", type=Path, help="a file with the names of tests, one a line")
    parser.add_argument("--again", default="", help="run tests of these classes again")
    arguments = parser.parse_args()
    rows = read_state(arguments.state)
    again = set(filter(None, arguments.again.split(",")))
    chosen = set(arguments.names.read_text().split()) if arguments.names else None
    cases = [
        case
        for name, case in test_cases().items()
        if (chosen is None or name in chosen)
        and re.search(arguments.only, name)
        and (name not in rows or rows[name]["class"] in again)
    ]
    run_tests(cases, arguments.state)
    rows = read_state(arguments.state)
    print(report([row for row in rows.values() if re.search(arguments.only, row["name"])]))


if __name__ == "__main__":
    main()
