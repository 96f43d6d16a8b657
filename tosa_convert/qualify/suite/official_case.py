"""Read a case of the official test suite, run its reference, and judge by its rules.

As in the official runner, the reference is the reference model in FP64, each output is judged by the
rule that the descriptor states for it, and inputs that have no file are generated. Outputs in blocks
with scales are judged by the official verifier's program, all others by rules that are equal to it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays import (
    INT48,
    Array,
    Arrays,
    Slot,
    load_npy,
    save_npy,
    slot_file,
    write_scratch,
)
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.programs import Program, input_slots, load_program, output_slots
from tosa_convert.golden.running.run_graph import file_name, run_program, save_result
from tosa_convert.golden.running.run_options import Level, RunOptions
from tosa_convert.graph.constant import sign_extend, unpack
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.installation import install_command
from tosa_convert.io.files import path_below, read_json
from tosa_convert.process.child import describe_exit
from tosa_convert.qualify.suite.official_rules import Compliance, parse_compliance

# -- the files of an official case: its descriptor, read and checked, and data that a library makes
# A descriptor comes from elsewhere, and the reference model reads and writes every file that it
# names. So the model gets a descriptor of our own, whose files are in a temporary folder. For
# inputs without a file it says by which generator, range and seed the library of the reference
# model makes the data.

NAME: Final = "desc.json"


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _are_rows(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(row, dict) for row in value.values())


#: Path of a field -> whether it must be there, and its type or what accepts its value.
_FIELDS: Final[Mapping[str, tuple[bool, type | Callable[[object], bool]]]] = {
    "tosa_file": (True, str),
    "ifm_name": (True, _are_texts),
    "ifm_file": (True, _are_texts),
    "ofm_name": (True, _are_texts),
    "ofm_file": (True, _are_texts),
    "expected_failure": (False, bool),
    "test_details": (False, dict),
    "test_requirements": (False, dict),
    "test_requirements.profiles_supported": (False, _are_texts),
    "test_requirements.extensions_required": (False, _are_texts),
    "meta": (False, dict),
    "meta.data_gen": (False, dict),
    "meta.data_gen.tensors": (False, _are_rows),
    "meta.compliance": (False, dict),
    "meta.compliance.tensors": (False, _are_rows),
}
_FOR_THE_MODEL: Final = ("expected_failure", "test_requirements", "meta")
_ABSENT: Final = object()


def read_descriptor(folder: Path) -> dict[str, Any]:
    """Read the descriptor of a case, whose fields have the types that official tests give them."""
    path = folder / NAME
    content = read_json(path, "a test descriptor")
    if not isinstance(content, dict):
        raise fail("file-error", str(path), "not a test descriptor: expected an object")
    for name, (is_needed, holds) in _FIELDS.items():
        value: Any = content
        for part in name.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is _ABSENT:
            if is_needed:
                raise fail("file-error", str(path), f"not a test descriptor: it has no {name}")
        elif not (isinstance(value, holds) if isinstance(holds, type) else holds(value)):
            raise fail("file-error", str(path), f"not a test descriptor: {name} is {value!r:.80}")
    for kind in ("ifm", "ofm"):
        names, files = content[f"{kind}_name"], content[f"{kind}_file"]
        if len(names) != len(files):
            message = f"it has {len(names)} in {kind}_name, and {len(files)} in {kind}_file"
            raise fail("file-error", str(path), f"not a test descriptor: {message}")
    return content


def case_file(folder: Path, name: str) -> Path:
    """Find a file that a descriptor names. Raises TosaConvertError("unsafe-path") and ("file-error")."""
    return Path(path_below(folder, name, str(folder / NAME)))


def described_run(description: Mapping[str, Any]) -> dict[str, Any]:
    """Make the descriptor of a run in a folder that has model.tosa and in0.npy and gets out0.npy."""
    kept = {name: description[name] for name in _FOR_THE_MODEL if name in description}
    return {
        **kept,
        "tosa_file": "model.tosa",
        "ifm_name": description["ifm_name"],
        "ifm_file": [f"in{i}.npy" for i in range(len(description["ifm_name"]))],
        "ofm_name": description["ofm_name"],
        "ofm_file": [f"out{i}.npy" for i in range(len(description["ofm_name"]))],
    }


_WHEEL: Final = "tosa-tools"
_STEM: Final = "libtosa_reference_generate_lib"
_EXTENSIONS: Final = {"win32": ".dll", "darwin": ".dylib"}


@functools.cache
def _library() -> Any:
    """Return the function of the library. Raises TosaConvertError("missing-refmodel")."""
    name = _STEM + _EXTENSIONS.get(sys.platform, ".so")
    try:
        folder = metadata.distribution(_WHEEL).locate_file("tosa_reference_model")
        function = ctypes.CDLL(str(Path(str(folder)) / name)).tgd_generate_data
    except (metadata.PackageNotFoundError, OSError) as error:
        message = f"the library that makes the data of official tests is not available: {error}"
        raise fail("missing-refmodel", name, message, install_command("refmodel")) from None
    function.restype = ctypes.c_bool
    function.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return function


def generate_data(data_gen: dict[str, Any], name: str, slot: Slot) -> Array:
    where = f'input "{name}"'
    if name not in data_gen.get("tensors", {}):
        raise fail(
            "input-mismatch", where, "it has no file, and the descriptor no generator for it"
        )
    count = int(np.prod(slot.shape, dtype=np.int64))
    row = slot.dtype
    is_shape = data_gen["tensors"][name].get("data_type") == "SHAPE"
    if is_shape:
        size = count * 4
    elif row is INT48:
        size = count * 6
    else:
        size = -(-count * row.bits // 8)
    buffer = np.zeros(size, np.uint8)
    if not _library()(json.dumps(data_gen).encode(), name.encode(), buffer.ctypes.data, size):
        raise fail(
            "input-mismatch", where, "the library of the official tests makes no data for it"
        )
    if is_shape:
        return buffer.view(np.int32).astype(np.int64).reshape(slot.shape)
    if row is INT48:
        wide = np.zeros((count, 8), np.uint8)
        wide[:, :6] = buffer.reshape(count, 6)
        wide[:, 6:] = np.where(wide[:, 5:6] & 0x80, 0xFF, 0)
        return wide.reshape(-1).view(np.int64).reshape(slot.shape)
    if row.is_packed:
        codes = unpack(buffer, row.bits, count)
        if row.is_in_bytes:
            return np.asarray(sign_extend(codes, row.bits).astype(row.numpy)).reshape(slot.shape)
        return codes.view(row.numpy).reshape(slot.shape)
    return buffer.view(row.numpy).reshape(slot.shape)


_VERIFIER: Final = "tosa_verify"
#: Its exit code for a result that the rules refuse; 1 means that it could not judge.
_NOT_COMPLIANT: Final = 2
#: Operators that say nothing about what a program tests.
_CONSTANTS: Final = ("CONST", "CONST_SHAPE")


@dataclass(frozen=True, slots=True)
class OfficialCase:
    """Hold a case that was read. description: its `desc.json`. source: the file of its program."""

    folder: Path
    description: dict[str, Any]
    program: Program
    source: Path

    @property
    def graph(self) -> Graph:
        return self.program.graph

    @property
    def is_expected_to_fail(self) -> bool:
        """Return whether the program breaks a rule that an implementation must find."""
        return bool(self.description.get("expected_failure"))

    @property
    def rules(self) -> dict[str, dict[str, Any]]:
        return dict(self.description.get("meta", {}).get("compliance", {}).get("tensors", {}))

    def rule(self, name: str) -> Compliance:
        row = self.rules[name]
        try:
            return parse_compliance(
                dict(row, data_type="INT64") if row["data_type"] == "SHAPE" else row
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            message = f"not a test descriptor: the rule of {name!r:.80} is damaged: {error!r:.200}"
            raise fail("file-error", str(self.folder / NAME), message) from None


@dataclass(frozen=True, slots=True)
class Reference:
    """Hold outputs and bounds in FP64 by key, and the folder where the official verifier gets them."""

    folder: Path
    arrays: dict[str, Array]
    bounds: dict[str, Array]


def read_case(folder: Path) -> OfficialCase:
    description = read_descriptor(folder)
    source = case_file(folder, description["tosa_file"])
    case = OfficialCase(folder, description, load_program(source, is_sound=False), source)
    for name, row in case.rules.items():
        if not _has_scale(row):
            case.rule(name)
    return case


def operator_and_type(case: OfficialCase) -> tuple[str, str]:
    """Return the operator that a case tests, and the element type of its first operand or result."""
    return named_operator(
        case.graph, str(case.description.get("test_details", {}).get("operator", ""))
    )


def named_operator(graph: Graph, name: str) -> tuple[str, str]:
    """Return an operator's name and element type; without a name, those of the first that computes."""
    found = [op for op in graph.main.operators if op.spec.name == name]
    if not found:
        found = [op for op in graph.main.operators if op.spec.name not in _CONSTANTS]
        name = name or (found[0].spec.name if found else "none")
    return name, _first_type(graph.main, found[0]) if found else "none"


def tested_by(graph: Graph) -> tuple[str, str, list[str]]:
    """Return the operator of a program, its element type, and what the program covers.

    A program of several operators is a network: it covers each of them with each type, such as
    "CONV2D INT8".

    Example:
        >>> from tosa_convert import golden
        >>> tested_by(golden.generate(seed=3, operators=3, kinds=["CEIL", "ABS"], types=["FP32"]))
        ('network', '', ['ABS FP32', 'CEIL FP32'])
    """
    pairs = {
        (op.spec.name, _first_type(block, op))
        for _, block in graph.blocks()
        for op in block.operators
        if op.spec.name not in _CONSTANTS
    }
    if len(pairs) == 1:
        return (*pairs.pop(), [])
    return "network", "", [f"{operator} {types}" for operator, types in sorted(pairs)]


def _first_type(block: Block, op: Operator) -> str:
    """Return the element type of an operator's first operand or result that is a tensor."""
    for tensor in (*op.inputs, *op.outputs):
        row = block.tensors.get(tensor)
        if row is not None:
            return str(row.dtype) if row.scale is None else f"MX {row.dtype}"
    return "shape"


def case_inputs(case: OfficialCase) -> dict[str, Array]:
    """Return the arrays of a case's inputs by key: from its files, else generated."""
    description = case.description
    files = dict(zip(description["ifm_name"], description["ifm_file"], strict=True))
    data_gen = description.get("meta", {}).get("data_gen", {})
    arrays = {}
    for slot in input_slots(case.graph):
        is_scale = slot.key != slot.tensor
        stem = files.get(slot.tensor, "").removesuffix(".npy")
        path = case_file(case.folder, slot_file(stem, slot))
        if slot.tensor in files and os.path.exists(path):
            arrays[slot.key] = load_npy(path, slot)
        else:
            name = slot.tensor + "_scale" if is_scale else slot.tensor
            arrays[slot.key] = generate_data(data_gen, name, slot)
    return arrays


def run_reference(
    case: OfficialCase, inputs: Arrays, folder: Path, level: str, options: RunOptions
) -> Reference:
    """Run a case's program as it is in FP64. folder: an empty one, for the official verifier."""
    with_bounds = bool(case.description.get("test_requirements", {}).get("bounds_file_required"))
    limit: Level = "8k" if level == "8k" else "none"
    precise = replace(options, precise=True, bounds=with_bounds, level=limit)
    found = run_program(case.program, inputs, precise)
    return Reference(folder, found.outputs, found.bounds)


def problems(case: OfficialCase, reference: Reference, found: Arrays) -> dict[str, str]:
    """Return why the official rules refuse arrays, by output; empty if they accept all of them."""
    outs = output_slots(case.graph)
    result = {slot.key: "there is no result" for slot in outs if slot.key not in found}
    by_verifier: dict[str, list[Slot]] = {}
    scales = {str(row["scale_tensor_name"]) for row in case.rules.values() if _has_scale(row)}
    for slot in outs:
        if slot.key in result:
            continue
        row = case.rules.get(slot.tensor)
        if row is None:
            result[slot.key] = "the descriptor has no rule for it"
        elif _has_scale(row):
            by_verifier.setdefault(slot.tensor, []).append(slot)
        elif slot.tensor in scales:
            owner = next(n for n, r in case.rules.items() if r.get("scale_tensor_name") == slot.key)
            by_verifier.setdefault(owner, []).append(slot)
        elif row["mode"] == "FROM_BLOCK":
            by_verifier.setdefault(slot.tensor, []).append(slot)
        else:
            bounds = reference.bounds.get(slot.key)
            text = case.rule(slot.tensor).problem(
                reference.arrays[slot.key], bounds, found[slot.key]
            )
            if text:
                far = _largest_difference(reference.arrays[slot.key], found[slot.key])
                result[slot.key] = f"{text}{far} [{row['mode']}]"
    for name, slots in by_verifier.items():
        if text := _verified(case, reference, found, name, slots):
            result[name] = text
    return result


def _largest_difference(wanted: Array, given: Array) -> str:
    """Return how far an array of the same shape is from the reference."""
    if wanted.shape != given.shape or not wanted.size or wanted.dtype == np.bool_:
        return ""
    with np.errstate(all="ignore"):
        error = np.abs(given.astype(np.float64) - wanted.astype(np.float64))
    error = np.where(np.isfinite(error), error, -1.0)
    index = np.unravel_index(int(error.argmax()), error.shape)
    place = [int(i) for i in index]
    return (
        f"; the largest finite error is {error[index]:.6g} at {place}" if error[index] > 0 else ""
    )


def _has_scale(row: Mapping[str, Any]) -> bool:
    return "scale_tensor_name" in row


def _verified(
    case: OfficialCase, reference: Reference, found: Arrays, name: str, slots: list[Slot]
) -> str:
    """Return what the official verifier says about an output, with its scales if it has them."""
    outs = output_slots(case.graph)
    folder = reference.folder
    names = list(dict.fromkeys(slot.tensor for slot in outs))
    description = described_run({**case.description, "ofm_name": names})
    write_scratch(folder / "desc.json", [json.dumps(description).encode()])
    results, references, bounds = [], [], []
    for slot in slots:
        if found[slot.key].shape != slot.shape or found[slot.key].dtype != slot.dtype.numpy:
            array = found[slot.key]
            return f"expected {slot}, found {array.dtype}{list(array.shape)}"
        file = file_name(outs, slot, "out")
        save_npy(folder / f"found_{file}", slot, found[slot.key])
        save_result(folder / file, slot, reference.arrays[slot.key])
        results.append(f"found_{file}")
        references.append(file)
        if slot.key in reference.bounds:
            bounds.append(f"bounds_{file}")
            save_result(folder / bounds[-1], slot, reference.bounds[slot.key])
    program = reference_model_process.locate().with_name(_VERIFIER)
    command = [
        str(program),
        "--test_desc=desc.json",
        f"--ofm_name={name}",
        "--imp_result_file=" + ",".join(results),
        "--ref_result_file=" + ",".join(references),
    ]
    if bounds:
        command.append("--bnd_result_file=" + ",".join(bounds))
    try:
        ended = reference_model_process.run(command, folder, 60.0)
    except FileNotFoundError:
        hint = "it comes with tosa-tools, beside the reference model"
        raise fail("missing-refmodel", str(program), "it is not installed", hint) from None
    if ended.code == 0:
        return ""
    if ended.code != _NOT_COMPLIANT:
        text = " / ".join(ended.stderr.strip().splitlines()[:3])
        raise fail("refmodel-failed", name, f"the verifier {describe_exit(ended.code)}: {text}")
    return _first_difference(reference, found, slots) + f" [{case.rules[name]['mode']}]"


def _first_difference(reference: Reference, found: Arrays, slots: list[Slot]) -> str:
    """Return the elements that differ, for a message; the verifier's own text is only a verdict."""
    parts = []
    for slot in slots:
        with np.errstate(all="ignore"):
            given, wanted = found[slot.key].astype(np.float64), reference.arrays[slot.key]
            differs = (given != wanted) & ~(np.isnan(given) & np.isnan(wanted))
        where = np.argwhere(differs)
        if len(where):
            index = tuple(int(i) for i in where[0])
            parts.append(
                f"{slot.key}: {len(where)} of {given.size} elements are not the reference's, the "
                f"first at {list(index)}: expected {wanted[index]}, found {given[index]}"
            )
    return "the official verifier refuses it; " + "; ".join(parts)
