"""Compare official tests with what comes back from the VGF files that Arm's converter writes of them.

    python tests/oracle/compare_vgf.py SUITE --state vgf.state

SUITE is made by official_suite.py, and `model-converter` of PyPI's ai-ml-sdk-model-converter is on PATH.
Two programs are equal if the same operators run in the same order on the same values: constants go by
their elements, everything else by what computes it, and names are not in a VGF file. The converter folds
and replaces some operators: then both programs have to compute the same numbers. It changes some types
and ranks, too, which is counted. Exit code 1 if a program differs, or if we refuse a file that it wrote.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import tosa_convert as tc
from tosa_convert.graph import Graph

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracle import comparison_main

#: Types that the converter widens or narrows; of block-scaled tensors it leaves out the scales.
_CHANGED_TYPES: Final = frozenset({"INT4", "INT64"})
#: Differences that are printed.
_PRINTED: Final = 20
_SECONDS: Final = 120


class Outcome(NamedTuple):
    """What became of a program, and why.

    kind: "equal"; "computes the same"; "other types", which are not compared further; "not taken" by the
    converter; "refused" by us; "differs".
    """

    kind: str
    file: str
    detail: str = ""


class Tally:
    """How many programs came back."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, found: Outcome) -> None:
        """Count one."""
        self.kinds[found.kind] += 1
        if found.kind == "not taken":
            self.reasons[found.detail] += 1
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
        for reason, count in self.reasons.most_common(10):
            yield f"  not taken, {count}: {reason}"
        yield from self.wrong


def described(graph: Graph) -> Any:
    """Describe a program without names: its inputs, operators and outputs."""
    block = graph.main
    made = {name: f"input {number}" for number, name in enumerate(block.inputs)}

    def value(name: str) -> Any:
        if name in block.shapes:
            sizes = block.shapes[name].values()
            return made.get(name) if sizes is None else tuple(sizes)
        tensor = block.tensors[name]
        if name in made or tensor.data is None:
            return made.get(name)
        return str(tensor.dtype), tensor.shape, tensor.data.numpy().tobytes()

    def of_type(name: str) -> Any:
        tensor = block.tensors.get(name)
        return None if tensor is None else (str(tensor.dtype), tensor.shape)

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
        tensor.dtype.name in _CHANGED_TYPES or tensor.shape == () or tensor.scale is not None
        for tensor in graph.main.tensors.values()
    )


def compare(file: Path, folder: Path) -> Outcome:
    """Convert a program to VGF, read it, and compare."""
    converter, target = shutil.which("model-converter"), folder / "m.vgf"
    if converter is None:
        raise SystemExit("model-converter is not on PATH: pip install ai-ml-sdk-model-converter")
    target.unlink(missing_ok=True)
    command = [converter, "-i", str(file), "--tosa-flatbuffer", "-o", str(target)]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Outcome("not taken", file.parent.name, "no end")
    if ran.returncode or not target.exists():
        said = (ran.stderr or ran.stdout).decode(errors="replace").strip().splitlines()
        words = next((line for line in said if "rror" in line), said[-1] if said else "crash")
        return Outcome("not taken", file.parent.name, words.split("error:")[-1].strip()[:70])
    before = tc.load(file)
    try:
        after = tc.load(target)
    except tc.TosaConvertError as error:
        return Outcome("refused", str(file), str(error)[:200])
    if described(before) == described(after):
        return Outcome("equal", file.parent.name)
    if is_changed(before):
        return Outcome("other types", str(file))
    if computes_the_same(before, after):
        return Outcome("computes the same", str(file))
    return Outcome("differs", str(file), _difference(before, after))


def computes_the_same(before: Graph, after: Graph) -> bool:
    """Whether two programs give the same bits for some inputs."""
    arrays = tc.golden.input_arrays(before, None, 3)
    expected = tc.golden.run(before, arrays, engine="numpy").outputs
    given = dict(zip(after.main.inputs, arrays.values(), strict=True))
    found = tc.golden.run(after, given, engine="numpy").outputs
    pairs = zip(expected.values(), found.values(), strict=True)
    return all(one.tobytes() == other.tobytes() for one, other in pairs)


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
