"""Change one thing in valid programs, and compare our verdict with MLIR's and the reference model's.

    python tests/oracle/compare_mutants.py DIR --each 3 --mutants 8 --seed 1

DIR has an official suite (`official_suite.py`). A mutant has another size, rank, element type or
attribute, or another value in a !tosa.shape or a small constant. Prints each kind of disagreement, with
the operator, our rules and an example. Exit code 1 if we accept what another judge refuses, if we alone
refuse something that `ALONE` does not have, or if one of our functions fails.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import official_suite
from oracle.outside_tools import TOOLS_VERSION, Refused, TosaOpt

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.graph import Constant, DType, Graph, Operator, Tensor, dtype

#: What MLIR's own validation is asked: everything is allowed that any target has.
_STRICT: Final = (
    "--tosa-attach-target=specification_version=1.1.draft level=none profiles=pro_int,pro_fp "
    "extensions=int16,int4,int64,bf16,fp8e4m3,fp8e5m2,fft,variable,controlflow,doubleround,"
    "inexactround,dynamic,shape,mx_common,mx_int8,mx_fp8e5m2,mx_fp8e4m3,mx_fp6e2m3,mx_fp6e3m2,"
    "mx_fp4e2m1,mxfp,mxfp_conv",
    "--tosa-validate=strict-op-spec-alignment",
)
#: Rules by which we refuse what MLIR's verifier and the reference model accept.
ALONE: Final = frozenset({"mul-shift", "variable-write-variable-type"})
_TYPES: Final = ("BOOL", "INT8", "INT16", "INT32", "FP32", "FP16", "BF16")
#: Constants of at most this many elements are changed.
_SMALL: Final = 8


class Judgement(NamedTuple):
    """What the judges say; "" for no objection.

    ours: our rules. mlir: the verifier's message. strict: that of MLIR's validation; "" if the verifier
    has one. model: the reference model's code of error.
    """

    ours: tuple[str, ...]
    mlir: str
    strict: str
    model: str


# -- changes -----------------------------------------------------------------------------------------


def _tensor(graph: Graph, operator: Operator, choose: random.Random) -> Tensor | None:
    """Return an operand or result that is not a constant."""
    tensors = graph.main.tensors
    names = [name for name in (*operator.inputs, *operator.outputs) if name in tensors]
    found = [tensors[name] for name in names if tensors[name].data is None]
    return choose.choice(found) if found else None


def _another_size(size: int, choose: random.Random) -> int:
    return max(1, choose.choice((size + 1, size - 1, 2 * size, 1)))


def _resize(graph: Graph, operator: Operator, choose: random.Random) -> str:
    """Another size of an operand or result."""
    tensor = _tensor(graph, operator, choose)
    if tensor is None or not tensor.shape:
        return ""
    shape = list(tensor.shape)
    position = choose.randrange(len(shape))
    shape[position] = _another_size(shape[position], choose)
    tensor.shape = tuple(shape)
    return f"{tensor.name} is {tensor.shape}"


def _another_rank(graph: Graph, operator: Operator, choose: random.Random) -> str:
    tensor = _tensor(graph, operator, choose)
    if tensor is None or tensor.shape is None:
        return ""
    tensor.shape = choose.choice(((1, *tensor.shape), (*tensor.shape, 1), tensor.shape[1:]))
    return f"{tensor.name} is {tensor.shape}"


def _another_type(graph: Graph, operator: Operator, choose: random.Random) -> str:
    tensor = _tensor(graph, operator, choose)
    if tensor is None or tensor.scale is not None:
        return ""
    tensor.dtype = dtype(choose.choice(_TYPES))
    return f"{tensor.name} is {tensor.dtype}"


def _another_attribute(graph: Graph, operator: Operator, choose: random.Random) -> str:
    """Another value of an integer, a flag, an enum or an element type."""
    names = [
        name for name, value in operator.attributes.items() if not isinstance(value, str | bytes)
    ]
    if not names:
        return ""
    name = choose.choice(names)
    value = operator.attributes[name]
    if isinstance(value, bool):
        operator.attributes[name] = not value
    elif isinstance(value, IntEnum):
        operator.attributes[name] = choose.choice(list(type(value)))
    elif isinstance(value, DType):
        operator.attributes[name] = dtype(choose.choice(("INT32", "FP16", "FP32", "INT48")))
    elif isinstance(value, tuple):
        values = list(value)
        values[choose.randrange(len(values))] = choose.choice((-1, 0, 1, 2, 3, 7))
        operator.attributes[name] = tuple(values)
    else:
        operator.attributes[name] = choose.choice((-1, 0, 1, 2, 3, 7))
    return f"{name} is {operator.attributes[name]!r}"


def _another_shape(graph: Graph, operator: Operator, choose: random.Random) -> str:
    """Another value, or number of values, in a constant !tosa.shape."""
    shapes = [graph.main.shapes[n] for n in operator.inputs if n in graph.main.shapes]
    shapes = [shape for shape in shapes if shape.data is not None and shape.rank]
    if not shapes:
        return ""
    shape = choose.choice(shapes)
    values = list(shape.values() or ())
    if choose.random() < 0.2:
        values.append(1)
    else:
        position = choose.randrange(len(values))
        values[position] = choose.choice((values[position] + 1, values[position] - 1, 0, -2))
    shape.rank = len(values)
    shape.data = Constant(dtype("INT64"), len(values), np.array(values, "<i8").tobytes())
    return f"{shape.name} is {values}"


def _another_constant(graph: Graph, operator: Operator, choose: random.Random) -> str:
    """Another integer in a small constant, such as a zero point or a shift."""
    found = [graph.main.tensors[n] for n in operator.inputs if n in graph.main.tensors]
    found = [
        t for t in found if t.data is not None and t.data.count <= _SMALL and t.dtype.bits == 8
    ]
    found = [t for t in found if t.dtype.name == "INT8"]
    if not found:
        return ""
    tensor = choose.choice(found)
    assert tensor.data is not None
    values = np.full(tensor.data.count, choose.choice((-1, 1, 5, 64)), np.int8)
    tensor.data = Constant(tensor.dtype, len(values), values.tobytes())
    return f"{tensor.name} is {values.tolist()}"


_CHANGES: Final[tuple[Callable[[Graph, Operator, random.Random], str], ...]] = (
    _resize,
    _another_rank,
    _another_type,
    _another_attribute,
    _another_shape,
    _another_constant,
)


def mutants(graph: Graph, count: int, seed: str) -> Iterator[tuple[str, Operator, Graph]]:
    """Copies of a program, each with one change: what it is, the operator, the copy."""
    choose = random.Random(seed)
    for _ in range(3 * count):
        copied = copy.deepcopy(graph)
        changeable = [o for o in copied.main.operators if o.inputs and not o.spec.regions]
        if not changeable:
            return
        operator = choose.choice(changeable)
        what = choose.choice(_CHANGES)(copied, operator, choose)
        if what and not tc.verify(copied):
            yield what, operator, copied
            count -= 1
            if not count:
                return


# -- judges ------------------------------------------------------------------------------------------


class Judges:
    """The three judges of a program, with a scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self.tosa_opt = TosaOpt(scratch)
        self.module = scratch / "mutant.mlirbc"

    def judge(self, graph: Graph) -> Judgement:
        """Return what each of them says."""
        found = tc.validate(graph, spec_version=TOOLS_VERSION)
        ours = tuple(dict.fromkeys(finding.rule or finding.code for finding in found))
        tc.save(graph, self.module, validate=False)
        mlir = self._refusal(())
        strict = "" if mlir else self._refusal(_STRICT)
        return Judgement(ours, mlir, strict, self._model(graph))

    def _refusal(self, flags: Sequence[str]) -> str:
        printed = self.tosa_opt.print(self.module, flags)
        return printed.message.partition("error: ")[2] if isinstance(printed, Refused) else ""

    def _model(self, graph: Graph) -> str:
        try:
            golden.run(graph, random=1)
        except tc.TosaConvertError as error:
            code = error.findings[0].code
            # It runs only programs whose sizes are all known.
            return "" if code == "unsupported-shape" else code
        return ""


class Tally:
    """Disagreements of the judges."""

    def __init__(self) -> None:
        self.programs = 0
        self.refused = 0
        #: Who refuses -> operator and our rules -> how many.
        self.kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.examples: dict[tuple[str, str], str] = {}
        self.wrong: list[str] = []
        #: Programs that a judge refuses before they are changed.
        self.unusable: list[str] = []

    def add(self, what: str, operator: Operator, found: Judgement) -> None:
        """Count a program."""
        self.programs += 1
        self.refused += bool(found.ours)
        refusing = {
            "we": bool(found.ours),
            "MLIR's verifier": bool(found.mlir),
            "MLIR's validation": bool(found.strict),
            "the reference model": bool(found.model),
        }
        if bool(found.ours) is bool(found.mlir) is bool(found.model):
            return
        who = ", ".join(name for name, refuses in refusing.items() if refuses)
        row = f"{operator.spec.name}: {' '.join(found.ours) or 'no rule'}"
        self.kinds[who][row] += 1
        example = f"{what}; {found.mlir or found.strict} {found.model}"
        self.examples.setdefault((who, row), example)
        alone = (
            found.ours and not (found.mlir or found.model) and not ALONE.intersection(found.ours)
        )
        if not found.ours or alone:
            self.wrong.append(f"{row}: {example}")

    def lines(self) -> Iterator[str]:
        """Iterate over the disagreements as text."""
        yield f"{self.programs} programs, of which we refuse {self.refused}"
        for who, rows in sorted(self.kinds.items()):
            yield f"{sum(rows.values()):5} refused by: {who}"
            for row, count in sorted(rows.items()):
                yield f"{count:9} {row}   ({self.examples[who, row]})"
        yield f"{len(self.unusable):5} official programs that a judge refuses unchanged"
        yield from self.unusable
        yield f"{len(self.wrong):5} that should not be"
        yield from self.wrong


def compare(files: Sequence[Path], changes: int, seed: int) -> Tally:
    """Judge mutants of some valid programs. changes: how many of each."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        judges = Judges(Path(name))
        for file in files:
            graph = tc.load(file)
            found = judges.judge(graph)
            if any(found):
                # Such as a program of random indices that the reference model does not accept.
                tally.unusable.append(f"{file}: {' '.join(filter(None, found[1:]))}")
                continue
            for what, operator, mutant in mutants(graph, changes, f"{seed} {file.parent.name}"):
                tally.add(what, operator, judges.judge(mutant))
    return tally


def chosen(directory: Path, each: int, seed: int) -> list[Path]:
    """Return some programs of each operator of an official suite, chosen at random."""
    by_operator: defaultdict[str, list[Path]] = defaultdict(list)
    for case in official_suite.cases(directory):
        by_operator[case.operator].append(case.tosa)
    choose = random.Random(seed)
    return [
        file
        for _, files in sorted(by_operator.items())
        for file in choose.sample(files, min(each, len(files)))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the judges and print where they disagree."""
    parser = argparse.ArgumentParser(description="Compare verdicts on changed TOSA programs.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--each", type=int, default=3, help="programs of each operator")
    parser.add_argument("--mutants", type=int, default=8, help="changes of each program")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    files = chosen(options.directory, options.each, options.seed)
    tally = compare(files, options.mutants, options.seed)
    for line in tally.lines():
        print(line)
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if tally.programs and not tally.wrong else 1


if __name__ == "__main__":
    sys.exit(main())
