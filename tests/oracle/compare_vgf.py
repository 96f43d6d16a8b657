"""Compare official tests with what comes back from the VGF files that Arm's converter writes of them.

    python tests/oracle/compare_vgf.py SUITE --state vgf.state
    python tests/oracle/compare_vgf.py FOLDER

SUITE is made by official_suite.py; FOLDER has .tosa files, such as the networks of the zoo. The command
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
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import tosa_convert as tc
from tosa_convert.formats.vgf.container import MAGIC
from tosa_convert.graph import Graph

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracle import comparison_main, official_suite

#: Types that the converter widens or narrows.
_CHANGED_TYPES: Final = {"INT4": "INT8", "INT64": "INT32"}
#: Differences that are printed.
_PRINTED: Final = 20
_SECONDS: Final = 120
_CRASH: Final = re.compile(r"Assertion `.*' failed|Stack dump")
_ERROR: Final = re.compile(r"(?i)error: ")
#: What differs between messages of one reason: files, types and values.
_VARIES: Final = re.compile(r"/\S+|tensor<[^>]*>|%\w+|#\d+|<BLOCK.*>")


class Outcome(NamedTuple):
    """What became of a program, and why.

    kind: "equal"; "equal but for types" that the converter changes; "computes the same"; "other types",
    of which the operators differ, too; "not taken" by the converter; "crashed", which the converter did;
    "refused" by us; "differs".
    """

    kind: str
    file: str
    detail: str = ""


class Tally:
    """How many programs came back."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.crashes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, found: Outcome) -> None:
        """Count one."""
        self.kinds[found.kind] += 1
        if found.kind == "not taken":
            self.reasons[found.detail] += 1
        if found.kind == "crashed":
            self.crashes[f"{found.file}: {found.detail}"] += 1
        if found.kind in ("refused", "differs") and len(self.wrong) < _PRINTED:
            self.wrong.append(f"{found.kind}: {found.file}: {found.detail}")

    @property
    def passed(self) -> bool:
        """Whether something was compared and nothing differed."""
        return self.kinds["equal"] > 0 and not self.wrong

    def lines(self) -> Iterator[str]:
        """The result, to be read."""
        for kind, count in self.kinds.most_common():
            yield f"{kind}: {count}"
        for reason, count in self.reasons.most_common():
            yield f"  not taken, {count}: {reason}"
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
            data = data.astype(np.int8 if tensor.dtype.name == "INT4" else np.int32)
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
    """Whether the converter changes a type or a rank of the program."""
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
    if is_changed(before):
        is_equal = described(before, as_converted=True) == described(after)
        return Outcome("equal but for types" if is_equal else "other types", str(file))
    try:
        if computes_the_same(before, after):
            return Outcome("computes the same", str(file))
    except tc.TosaConvertError as error:
        return Outcome("differs", str(file), f"neither can be run: {str(error)[:150]}")
    return Outcome("differs", str(file), _difference(before, after))


def computes_the_same(before: Graph, after: Graph) -> bool:
    """Whether two programs give the same bits for some inputs."""
    arrays = tc.golden.input_arrays(before, None, 3)
    names = _remaining_inputs(before, after)
    if names is None or _types(before, before.main.outputs) != _types(after, after.main.outputs):
        return False
    expected = tc.golden.run(before, arrays, engine="numpy").outputs
    given = {own: arrays[name] for own, name in zip(after.main.inputs, names, strict=True)}
    found = tc.golden.run(after, given, engine="numpy").outputs
    pairs = zip(expected.values(), found.values(), strict=True)
    return all(one.tobytes() == other.tobytes() for one, other in pairs)


def _remaining_inputs(before: Graph, after: Graph) -> list[str] | None:
    """Find the inputs of a program that the converter has kept: it leaves out those of folded operators.

    None if what came back has others.
    """
    left = iter(before.main.inputs)
    found = []
    for wanted in _types(after, after.main.inputs):
        name = next((name for name in left if _types(before, [name]) == [wanted]), None)
        if name is None:
            return None
        found.append(name)
    return found


def _types(graph: Graph, names: Sequence[str]) -> list[tuple[str, Any]]:
    tensors = graph.main.tensors
    return [(tensors[name].dtype.name, tensors[name].shape) for name in names]


def _difference(before: Graph, after: Graph) -> str:
    for one, other in zip(described(before), described(after), strict=True):
        for number, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return f"{number}: {str(left)[:200]} became {str(right)[:200]}"
        if len(one) != len(other):
            return f"{len(one)} rows became {len(other)}"
    return ""


def compare_files(files: Sequence[Path]) -> list[Outcome]:
    """Compare a batch."""
    with tempfile.TemporaryDirectory() as folder:
        return [compare(file, Path(folder)) for file in files]


if __name__ == "__main__":
    asked = comparison_main.parser(__doc__ or "").parse_args()
    sys.exit(comparison_main.run(asked, compare_files, Tally()))
