"""Programs of a framework, one for each operator and element types, at the ends of these types.

A table has rows of expressions of `x`, `y` and `z`, the operands, and the types that each is tried with.
What the framework computes is recorded once: `python tests/frontends/matrix.py torch`, `jax`
or `onnx`.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

import tosa_convert as tc
from tosa_convert.golden.models.compare_model import as_slot

FLOATS: Final = ("float32", "float16", "bfloat16", "float64")
SIGNED: Final = ("int8", "int16", "int32", "int64")
BITS: Final = (*SIGNED, "uint8", "bool")
#: Integers of few bits, which numpy does not have; programs hold them in bytes.
WHOLE_BITS: Final = ("int4", "uint4")
_SIZES: Final = (
    *(2.0**-149, 1e-40, 2.0**-24, 1e-6, 1e-3, 0.1, 0.3, 0.5, 0.7, 1, 1.5, 2, 2.5, 3, 6, 7.25, 20),
    *(40.7, 88, 89, 100, 128.5, 300, 5000, 65504, 1e6, 2.0**24 + 2, 3e9, 1e30, 3e38, math.inf),
)
_FEW: Final = (0.0, -0.0, 0.3, 0.5, 1, 1.5, 2, 3, -0.5, -1, -2.5, -3, 100, -100, 1e25)
_WHOLE: Final = (*range(-4, 9), 31, 32, 33, 63, 64, 100, -100, 127, 128, 200, 46340, -46341)


#: How many cases are lowered in one program.
_TOGETHER: Final = 64


class Row(NamedTuple):
    """Expressions, separated by ";", of operands of a form.

    form: "ends" of a type, "usual" ones, without the least and the greatest floats, "whole" ones, which
        INT32 can hold, "pairs" of them, "divisors": pairs without what integers cannot divide by,
        "shifts"; else the shape of each operand: "2,3" of ordinary numbers, "2,3!" with infinities and
        NaN among them, "2,3:5" of indices below 5, "2,3:b" of truth values, "2,3:p" of positive numbers;
        "." is a tensor without axes.
    types: those of the first operand and of those that have no other; "a/b" is one for each operand.
    tolerance: what results may differ by, in units of their last place.
    scale: the least number whose last place counts.
    """

    expressions: str
    form: str
    types: Sequence[str]
    tolerance: float = 4
    scale: float = 0


class Case(NamedTuple):
    """Hold an expression of operands. is_narrow: integers and floats of 64 bits are narrowed to 32."""

    name: str
    expression: str
    operands: tuple[Any, ...]
    is_narrow: bool
    tolerance: float
    scale: float = 0


def dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def _is_whole(name: str) -> bool:
    return dtype(name).kind in "iu" or name in WHOLE_BITS


def _cast(numbers: Any, name: str) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(numbers, np.float64).astype(dtype(name))


def ends(name: str, is_few: bool = False, is_narrow: bool = False) -> Any:
    """Return the ends of a type, and what lies between them; of few for pairs."""
    if name == "bool":
        return np.array([False, True, True])
    if not _is_whole(name):
        sizes = _FEW if is_few else (0.0, -0.0, *_SIZES, *(-x for x in _SIZES))
        if name == "float64":  # What FP32 has, too, and computes with.
            sizes = tuple(float(np.float32(x)) for x in sizes if abs(x) < 1e31)
        return _cast((*sizes, math.inf, -math.inf, math.nan), name)
    limits: Any = ml_dtypes.iinfo(dtype(name))  # type: ignore[no-untyped-call]
    low, high = int(limits.min), int(limits.max)
    if name == "int64":  # Sums and products fit: TOSA does not define what overflows 64 bits.
        fitting = (46340, 3_000_000_000) if is_few else (2**30, 2**58)
        high = fitting[0 if is_narrow else 1]
        low = -high
    between = [-1, 0, 1, 2, -3, 7, 100] if is_few else _WHOLE
    numbers = {low, low + 1, high, high - 1, high // 2 + 1, low // 2, *between}
    kind = "int8" if name in WHOLE_BITS else name
    return np.array(sorted(x for x in numbers if low <= x <= high), kind).astype(dtype(name))


def _without_subnormals(numbers: Any) -> Any:
    if numbers.ndim != 1 or numbers.dtype.name not in ("float32", "bfloat16"):
        return numbers
    return numbers[(numbers == 0) | ~(np.abs(numbers.astype(np.float64)) < 2.0**-126)]


def _pairs(form: str, names: Sequence[str], is_narrow: bool) -> tuple[Any, Any]:
    a, b = (ends(name, True, is_narrow) for name in (names[0], names[-1]))
    if form == "shifts":
        b = np.arange(8 * a.dtype.itemsize).astype(b.dtype)
    x, y = np.repeat(a, b.size), np.tile(b, a.size)
    if form == "divisors" and dtype(names[-1]).kind in "iub":
        kept = y != 0
        if dtype(names[0]).kind in "i":
            kept &= (x != np.iinfo(names[0]).min) | (y.astype(np.int64) != -1)
        return x[kept], y[kept]
    return x, y


def _ordinary(word: str, name: str, index: str, seed: int, is_narrow: bool) -> Any:
    """Return numbers of a shape: of floats quarters, with ties, of which sums are exact."""
    sizes, _, kind = word.partition(":")
    has_ends = sizes.endswith("!")
    shape = tuple(int(size) for size in sizes.rstrip("!").split(",") if size != ".")
    chance = np.random.default_rng(seed + math.prod(shape))
    if kind == "b":
        return chance.random(shape) < 0.6
    if kind.isdigit():
        return chance.integers(0, int(kind), shape).astype(index)
    if kind == "p":
        return _cast(chance.integers(1, 40, shape) / 8, name)
    if name == "bool":
        return chance.random(shape) < 0.5
    if dtype(name).kind in "iu":
        numbers = chance.integers(0 if name[0] == "u" else -9, 10, shape).astype(name)
        special: Sequence[float] = [ends(name, False, is_narrow)[at] for at in (0, 1, -1, -2)]
    else:
        numbers = _cast(chance.integers(-16, 17, shape) / 4, name)
        special = (math.nan, math.inf, -math.inf, math.inf)
    if has_ends and numbers.size:
        places = chance.choice(numbers.size, min(4, 1 + numbers.size // 5), replace=False)
        for place, number in zip(places, special, strict=False):
            numbers.reshape(-1)[place] = number
    return numbers


def operands(form: str, types: str, index: str, is_narrow: bool) -> tuple[Any, ...]:
    names = types.split("/")
    if form in ("ends", "usual", "whole"):
        numbers = ends(names[0], False, is_narrow)
        sizes = np.abs(numbers.astype(np.float64))
        if form == "usual" and numbers.dtype.kind not in "iub":
            numbers = numbers[~np.isfinite(sizes) | (sizes == 0) | (sizes > 1e-6) & (sizes < 5000)]
        return (numbers[sizes < 2**31] if form == "whole" and "float" in names[0] else numbers,)
    if form in ("pairs", "divisors", "shifts"):
        return _pairs(form, names, is_narrow)
    words = form.split()
    names += names[-1:] * len(words)
    return tuple(
        _ordinary(word, name, index, seed, is_narrow)
        for seed, (word, name) in enumerate(zip(words, names, strict=False))
    )


def cases(module: Any) -> Iterator[Case]:
    """Return the programs of a table, by expressions."""
    wide = set(module.WIDE)
    for row in module.TABLE:
        for text in filter(None, (" ".join(part.split()) for part in row.expressions.split(";"))):
            for types in row.types:
                words = set(types.split("/"))
                for is_narrow in (False, True) if words & wide else (False,):
                    if "float64" in words and not is_narrow:
                        continue
                    name = " | ".join((text, row.form, types, *(("narrow",) if is_narrow else ())))
                    held = operands(row.form, types, module.INDEX, is_narrow)
                    if module.FLUSHES:
                        held = tuple(map(_without_subnormals, held))
                    yield Case(name, text, held, is_narrow, row.tolerance, row.scale)


# -- what the framework computes -----------------------------------------------------------------


def record_of(framework: str) -> Path:
    return Path(__file__).with_name(f"{framework}_results.npz")


def recorded(framework: str) -> dict[str, list[Any]]:
    """Return name of each case that the framework computes -> its results."""
    with np.load(record_of(framework)) as file:
        rows = json.loads(zlib.decompress(file["rows"].tobytes()))
        held = {key: file[key] for key in file.files if key != "rows"}
    data = {
        key: np.frombuffer(planes.T.tobytes(), dtype(key)) for key, planes in held.items()
    }  # The bytes of all elements by their place, of which files are small.
    places = dict.fromkeys(data, 0)
    found: dict[str, list[Any]] = {}
    for name, results in rows:
        found[name] = []
        for key, shape in results:
            start = places[key]
            places[key] += math.prod(shape)
            found[name].append(data[key][start : places[key]].reshape(shape))
    return found


def record(framework: str, results: Mapping[str, Sequence[Any]]) -> None:
    data: dict[str, list[bytes]] = {}
    rows = []
    for name, arrays in results.items():
        rows.append([name, [[str(one.dtype), one.shape] for one in arrays]])
        for one in arrays:
            data.setdefault(str(one.dtype), []).append(one.tobytes())
    planes = {
        key: np.frombuffer(b"".join(parts), np.uint8).reshape(-1, dtype(key).itemsize).T
        for key, parts in data.items()
    }
    text = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 9)
    np.savez_compressed(record_of(framework), rows=np.frombuffer(text, np.uint8), **planes)


# -- what a program computes ---------------------------------------------------------------------


def difference(case: Case, expected: Sequence[Any], found: Sequence[Any]) -> str:
    """Return the first element that differs; "" if none does. The sign of 0 does not count."""
    for number, (want, got) in enumerate(zip(expected, found, strict=True)):
        if got.shape != want.shape:
            return f"result {number} has the shape {got.shape}, expected {want.shape}"
        if want.dtype.kind in "iub":
            if want.dtype.itemsize == got.dtype.itemsize:
                got = got.view(want.dtype)
            wrong = got.astype(object) != want.astype(object)
        else:
            wrong = _far(got.astype(np.float64), want, case)
        if np.any(wrong):
            place = tuple(int(at) for at in np.argwhere(wrong)[0])
            given = (
                [str(one[place if one.shape == want.shape else ()]) for one in case.operands]
                if all(one.shape in (want.shape, ()) for one in case.operands)
                else []
            )
            return f"result {number} at {place} of {given}: {got[place]}, expected {want[place]}"
    return ""


def _far(got: Any, want: Any, case: Case) -> Any:
    """Return where floats differ by more than some units of the last place and a small number."""
    kind = np.dtype(np.float32) if want.dtype == np.float64 else want.dtype
    info: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        exact = want.astype(np.float64)
        if want.dtype == np.float64:  # What FP32 has of it.
            exact = exact.astype(np.float32).astype(np.float64)
        unit = float(info.eps) * np.maximum(np.abs(exact), case.scale)
        near = np.abs(got - exact) <= case.tolerance * unit + 2.0**-126
        near &= np.isfinite(exact)
        return ~((got == exact) | (np.isnan(got) & np.isnan(exact)) | near)


def fits(arrays: Sequence[Any]) -> bool:
    """Return whether 32 bits hold all integers."""
    whole = [one for one in arrays if one.dtype.kind in "iu" and one.dtype.itemsize == 8]
    return all(not x.size or (x.min() >= -(2**31) and x.max() < 2**31) for x in whole)


# -- running a table -----------------------------------------------------------------------------


def table_of(framework: str) -> tuple[Any, dict[str, Case]]:
    """Return the module that has the table of a framework, and its cases by name."""
    module = importlib.import_module(f"frontends.{framework}_matrix")
    return module, {case.name: case for case in cases(module)}


def outcomes(
    framework: str, path: Path, chosen: Callable[[Case], bool] = lambda case: True
) -> Iterator[tuple[str, str]]:
    """Yield "equal", "refused: " and why, or what is wrong, of each case that is recorded."""
    module, known = table_of(framework)
    expected = recorded(framework)
    groups: dict[bool, list[Case]] = {}
    for name, results in expected.items():
        case = known[name]
        if chosen(case) and (not case.is_narrow or fits([*case.operands, *results])):
            groups.setdefault(case.is_narrow, []).append(case)
    for group in groups.values():
        for start in range(0, len(group), _TOGETHER):
            yield from _outcomes(module, group[start : start + _TOGETHER], expected, path)


def _outcomes(
    module: Any, group: Sequence[Case], expected: Mapping[str, Any], path: Path
) -> Iterator[tuple[str, str]]:
    """Yield the outcomes of cases in one program, or of halves of them if it does not lower."""
    made = _results(module, group, path)
    if not isinstance(made, str):
        run = iter(made)
        for case in group:
            want = expected[case.name]
            yield case.name, difference(case, want, list(islice(run, len(want)))) or "equal"
    elif len(group) == 1:
        yield group[0].name, made
    else:
        middle = len(group) // 2
        yield from _outcomes(module, group[:middle], expected, path)
        yield from _outcomes(module, group[middle:], expected, path)


def _results(module: Any, group: Sequence[Case], path: Path) -> str | list[Any]:
    """Return the results of some cases in one program; or why it is none."""
    narrow = ("i64", "f64") if group[0].is_narrow else ()
    operands = [case.operands for case in group]
    try:
        graph = module.lowered([case.expression for case in group], operands, narrow, path)
    except module.REFUSALS as error:
        return f"refused: {' '.join(str(error).split())}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    rows = [row for row in tc.validate(graph) if row.code != "requires-extension"]
    if rows:
        return f"refused: {rows[0].code}: {rows[0].message}"
    arrays = [
        one.astype(np.int8) if one.dtype.name in WHOLE_BITS else one
        for given in operands
        for one in given
    ]
    inputs = {
        name: as_slot(one, graph.main.tensors[name])
        for name, one in zip(graph.main.inputs, arrays, strict=True)
    }
    try:
        outputs = tc.golden.run(graph, inputs, engine="numpy").outputs
    except tc.TosaConvertError as error:
        return f"undefined: {error}"
    return [np.asarray(outputs[name]) for name in graph.main.outputs]


def main(framework: str) -> None:
    """Record what a framework computes of its table and has no record; delete the file for all."""
    module, known = table_of(framework)
    before = recorded(framework) if record_of(framework).exists() else {}
    found: dict[str, list[Any]] = {}
    for name, case in known.items():
        if name in before:
            found[name] = before[name]
            continue
        try:
            found[name] = module.computed(case.expression, case.operands)
        except Exception as error:
            print(f"{name}: {' '.join(str(error).split())[:90]}")
    record(framework, found)
    print(f"{len(found)} of {len(known)}, {record_of(framework).stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
