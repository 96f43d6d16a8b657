"""Compare official tests with what comes back from the VGF files that Arm's converter writes of them.

    python tests/oracle/compare_vgf.py SUITE --state vgf.state
    python tests/oracle/compare_vgf.py FOLDER

SUITE is made by official_suite.py; FOLDER has .tosa files, or folders of them, which are counted apart:
the networks of the zoo, as zoo/write_programs.py writes them by each way to TOSA. The command
`model-converter` of PyPI's ai-ml-sdk-model-converter is on PATH.
Two programs are equal if the same operators run in the same order on the same values: constants go by
their elements, everything else by what computes it, and names are not in a VGF file. The converter folds
and replaces some operators: then both programs have to compute the same numbers. It changes some types
and ranks, too, which is counted. Exit code 1 if a program differs, or if we refuse a file that it wrote.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import tosa_convert as tc
from tosa_convert.formats.vgf import MAGIC
from tosa_convert.graph import Graph

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracle import comparison_main, official_suite

#: Types that the converter widens or narrows.
_CHANGED_TYPES: Final = {"INT4": "INT8", "INT64": "INT32"}
_NUMPY: Final[dict[str, type[np.signedinteger[Any]]]] = {"INT8": np.int8, "INT32": np.int32}
#: Differences that are printed.
_PRINTED: Final = 100
_SECONDS: Final = 120
_CRASH: Final = re.compile(r"Assertion `.*' failed|Stack dump")
_ERROR: Final = re.compile(r"(?i)error: ")
#: What differs between messages of one reason: files, types and values.
_VARIES: Final = re.compile(r"/\S+|tensor<[^>]*>|%\w+|#\d+|<BLOCK.*>")


class Outcome(NamedTuple):
    """What became of a program, and why.

    kind: "equal"; "equal but for types" that the converter changes; "computes the same", perhaps
    "in other types"; "other values", which the converter writes; "not run", if the engine refuses a
    program of other types; "not taken" by the converter; "crashed", which the converter did; "refused"
    by us; "differs". folder: that has the program.
    """

    kind: str
    file: str
    detail: str = ""
    folder: str = ""


class Tally:
    """How many programs came back."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.folders: dict[str, Counter[str]] = {}
        self.reasons: Counter[str] = Counter()
        self.crashes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, found: Outcome) -> None:
        """Count one."""
        self.kinds[found.kind] += 1
        self.folders.setdefault(found.folder, Counter())[found.kind] += 1
        if found.kind in ("not taken", "not run", "other values"):
            self.reasons[f"{found.kind}, %d: {found.detail}"] += 1
        if found.kind == "crashed":
            self.crashes[f"{found.file}: {found.detail}"] += 1
        if found.kind in ("refused", "differs") and len(self.wrong) < _PRINTED:
            self.wrong.append(f"{found.kind}: {found.file}: {found.detail}")

    @property
    def passed(self) -> bool:
        """Return whether something was compared and nothing differed."""
        return self.kinds["equal"] > 0 and not self.wrong

    def lines(self) -> Iterator[str]:
        """Iterate over the result, to be read."""
        folders = sorted(self.folders) if len(self.folders) > 1 else []
        if folders:
            yield f"in all: {', '.join(f'{name} {self.folders[name].total()}' for name in folders)}"
        for kind, count in self.kinds.most_common():
            parts = [f"{name} {self.folders[name][kind]}" for name in folders]
            yield f"{kind}: {count}{' (' + ', '.join(parts) + ')' if parts else ''}"
        for reason, count in self.reasons.most_common():
            yield "  " + reason.replace("%d", str(count), 1)
        for crash, count in sorted(self.crashes.items()):
            yield f"  crashed, {count}: {crash}"
        yield from self.wrong


def described(graph: Graph, *, as_converted: bool = False) -> Any:
    """Describe a program without names: its inputs, operators and outputs.

    as_converted: with the types and ranks that the converter makes of its own.
    """
    block = graph.main
    made = {name: f"input {number}" for number, name in enumerate(block.inputs)}

    def value(name: str) -> Any:
        if name in block.shapes:
            sizes = block.shapes[name].values()
            return made.get(name) if sizes is None else tuple(sizes)
        tensor = block.tensors[name]
        if name in made or tensor.data is None:
            return made.get(name)
        data = tensor.data.numpy()
        if as_converted and tensor.dtype.name in _CHANGED_TYPES:
            kind = _NUMPY[_CHANGED_TYPES[tensor.dtype.name]]
            limits = np.iinfo(kind)
            data = np.clip(data.astype(np.int64), limits.min, limits.max).astype(kind)
        return *of_type(name), data.tobytes()

    def of_type(name: str) -> Any:
        tensor = block.tensors.get(name)
        if tensor is None or not as_converted:
            return None if tensor is None else (tensor.dtype.name, tensor.shape)
        return _CHANGED_TYPES.get(tensor.dtype.name, tensor.dtype.name), tensor.shape or (1,)

    rows: list[Any] = []
    for operator in block.operators:
        if not operator.spec.operands:
            continue
        operands = [value(name) for name in operator.inputs]
        for number, name in enumerate(operator.outputs):
            made[name] = f"result {number} of {len(rows)}"
        results = [of_type(name) for name in operator.outputs]
        rows.append((operator.spec.name, operands, results, operator.attributes))
    return [of_type(name) for name in block.inputs], rows, [value(name) for name in block.outputs]


def is_changed(graph: Graph) -> bool:
    """Return whether the converter changes a type or a rank of the program."""
    return any(
        tensor.dtype.name in _CHANGED_TYPES or tensor.shape == ()
        for tensor in graph.main.tensors.values()
    )


def compare(file: Path, folder: Path) -> Outcome:
    """Convert a program to VGF, read it, and compare."""
    converter, target = shutil.which("model-converter"), folder / "m.vgf"
    if converter is None:
        raise SystemExit("model-converter is not on PATH: pip install ai-ml-sdk-model-converter")
    target.unlink(missing_ok=True)
    command = [converter, "-i", str(file), "-o", str(target)]
    name = file.parent.name if file.name == "test.tosa" else file.stem
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Outcome("crashed", name, "no end")
    said = (ran.stderr or ran.stdout).decode(errors="replace")
    if ran.returncode < 0 or (crash := _CRASH.search(said)):
        words = f"signal {-ran.returncode}" if ran.returncode < 0 else str(crash and crash[0])
        return Outcome("crashed", official_suite.operator_of(file.parent.parent.name), words)
    if ran.returncode or not target.exists():
        lines = [line for line in said.splitlines() if _ERROR.search(line)] or ["nothing said"]
        words = _VARIES.sub("...", _ERROR.split(lines[0])[-1]).split(" that was explicitly")[0]
        return Outcome("not taken", name, words.strip()[:110])
    assert target.read_bytes()[:4] == MAGIC, "the converter wrote another format"
    before = tc.load(file)
    try:
        after = tc.load(target)
    except tc.TosaConvertError as error:
        return Outcome("refused", str(file), str(error)[:200])
    if described(before) == described(after):
        return Outcome("equal", name)
    is_other = is_changed(before)
    if is_other and described(before, as_converted=True) == described(after):
        return Outcome("equal but for types", str(file))
    try:
        if computes_the_same(before, after):
            kind = "computes the same in other types" if is_other else "computes the same"
            return Outcome(kind, str(file))
    except tc.TosaConvertError as error:
        return Outcome("not run" if is_other else "differs", str(file), str(error)[:200])
    if reason := _changes_values(before):
        return Outcome("other values", str(file), reason)
    return Outcome("differs", str(file), _difference(before, after))


def _changes_values(graph: Graph) -> str:
    """Return why the converter writes other values; "" if it does not."""
    tensors = graph.main.tensors
    limits = np.iinfo(np.int32)
    for tensor in tensors.values():
        if tensor.data is not None and tensor.dtype.name == "INT64":
            values = tensor.data.numpy()
            if values.min() < limits.min or values.max() > limits.max:
                return "INT64 constants saturate to 32 bits"
    for operator in graph.main.operators:
        if operator.spec.name == "CAST" and tensors[operator.outputs[0]].dtype.name.startswith(
            "FP"
        ):
            data = tensors[operator.inputs[0]].data
            if data is not None and tensors[operator.inputs[0]].dtype.name == "BOOL":
                return "CAST of true is folded to -1"
    return ""


def computes_the_same(before: Graph, after: Graph) -> bool:
    """Return whether two programs give the same bits for some inputs."""
    if _types(before, before.main.outputs) != _types(after, after.main.outputs):
        return False
    arrays = {
        name: array % 1000 if array.dtype == np.int64 else array
        for name, array in tc.golden.input_arrays(before, None, 3).items()
    }
    expected = _answers(before, arrays)
    if not expected:
        # Integers may be tokens, which must be in a vocabulary.
        arrays = {
            name: array % 8 if array.dtype.kind == "i" else array for name, array in arrays.items()
        }
        expected = list(tc.golden.run(before, arrays, engine="numpy").outputs.values())
    wanted = _types(after, after.main.inputs)
    # The converter leaves out the inputs that only folded operators read.
    for names in combinations(before.main.inputs, len(wanted)):
        if _types(before, names) != wanted:
            continue
        given = {
            own: _as(after, own, arrays[name])
            for own, name in zip(after.main.inputs, names, strict=True)
        }
        found = list(tc.golden.run(after, given, engine="numpy").outputs.values())
        pairs = zip(expected, found, strict=True)
        if all(_is_equal(one, other) for one, other in pairs):
            return True
    return False


def _answers(graph: Graph, arrays: dict[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Return the outputs; none if the engine refuses the inputs, or an output has no number."""
    try:
        found = list(tc.golden.run(graph, arrays, engine="numpy").outputs.values())
    except tc.TosaConvertError:
        return []
    return (
        [] if any(array.dtype.kind == "f" and np.isnan(array).all() for array in found) else found
    )


def _as(graph: Graph, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array in the type and shape that an input has."""
    tensor = graph.main.tensors[name]
    kind = _NUMPY.get(tensor.dtype.name, array.dtype)
    return array.astype(kind).reshape(tensor.shape or ())


def _is_equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Return whether two arrays have the same bits, or the same integers in another type or rank."""
    if one.dtype == other.dtype:
        return one.tobytes() == other.tobytes()
    return bool(np.array_equal(one.astype(np.int64).ravel(), other.astype(np.int64).ravel()))


def _types(graph: Graph, names: Sequence[str]) -> list[tuple[str, Any]]:
    """Return types and shapes as the converter makes them."""
    tensors = [graph.main.tensors[name] for name in names]
    return [
        (_CHANGED_TYPES.get(tensor.dtype.name, tensor.dtype.name), tensor.shape or (1,))
        for tensor in tensors
    ]


def _difference(before: Graph, after: Graph) -> str:
    for one, other in zip(described(before, as_converted=True), described(after), strict=True):
        for number, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return f"{number}: {str(left)[:200]} became {str(right)[:200]}"
        if len(one) != len(other):
            return f"{len(one)} rows became {len(other)}"
    return ""


def compare_files(files: Sequence[Path]) -> list[Outcome]:
    """Compare a batch."""
    with tempfile.TemporaryDirectory() as folder:
        return [compare(file, Path(folder))._replace(folder=_column(file)) for file in files]


def _column(file: Path) -> str:
    """Return the folder of a network; a case of the official suite has one of its own."""
    return "" if file.name == "test.tosa" else file.parent.name


if __name__ == "__main__":
    asked = comparison_main.parser(__doc__ or "").parse_args()
    sys.exit(comparison_main.run(asked, compare_files, Tally()))
