"""Recurrent operators, which keep states between calls."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from frontends.tflite_operators.programs import Program, Programs, Value
from frontends.tflite_operators.values import Quantized, Result

#: Sizes of an input, of a cell, and of an output that is projected.
INPUT, CELL, OUTPUT = 3, 5, 4
#: Quantisation of inputs and outputs, and the scales of weights and of the cell.
_INPUT: Final = Quantized((0.05,), 7)
_HIDDEN: Final = Quantized((1 / 120,), 3)
_STATE: Final = Quantized((1 / 100,), -6)
_WEIGHTS: Final = 0.012
_CELL_SCALE: Final = 2.0**-11
_NORM_SCALE: Final = 2.0**-14
_GATE_SCALE: Final = 0.0006
#: What a variant of an LSTM has: without an input gate, with weights of the cell, and so on.
VARIANTS: Final[tuple[tuple[str, ...], ...]] = (
    (),
    ("cifg",),
    ("peephole",),
    ("projection",),
    ("projection", "bias"),
    ("norm",),
    ("cifg", "peephole", "projection", "bias", "norm"),
    ("cell_clip",),
    ("projection", "bias", "proj_clip", "cell_clip"),
    ("time_major",),
)


class _Weights:
    """Makes the operands of one direction of an LSTM."""

    def __init__(self, program: Program, dtype: str, parts: Collection[str], scale: float) -> None:
        self.program, self.is_float, self.parts = program, dtype == "float32", parts
        self.scale = scale

    def matrix(self, rows: int, columns: int) -> Value:
        if self.is_float:
            return self.program.random("float32", (rows, columns), (-1, 1))
        number = len(self.program.tensors) % 3
        quantized = Quantized((self.scale * (1 + number / 7),))
        return self.program.random("int8", (rows, columns), (-127, 127), quantized=quantized)

    def row(self, size: int, scale: float, dtype: str = "int16") -> Value:
        if self.is_float:
            return self.program.random("float32", (size,), (-1, 1))
        limit = 20000 if dtype == "int16" else 1500
        quantized = Quantized((scale,))
        return self.program.random(dtype, (size,), (-limit, limit), quantized=quantized)

    def operands(self, size: int, output: int) -> list[Value | None]:
        """Return weights of the input, the output and the cell; biases; the projection."""
        parts, gates = self.parts, "ifco"
        kept = [gate for gate in gates if gate != "i" or "cifg" not in parts]
        values: list[Value | None] = []
        for columns in (size, output):
            values += [self.matrix(CELL, columns) if gate in kept else None for gate in gates]
        for gate in "ifo":
            has_row = "peephole" in parts and gate in kept
            values.append(self.row(CELL, 3e-5) if has_row else None)
        values += [
            self.row(CELL, self.scale * 0.05, "int32") if gate in kept else None for gate in gates
        ]
        has_projection = "projection" in parts
        values.append(self.matrix(output, CELL) if has_projection else None)
        values.append(self.row(output, self.scale / 120, "int32") if "bias" in parts else None)
        return values

    def norms(self) -> list[Value | None]:
        has_norm = "norm" in self.parts
        kept = [has_norm and (gate != "i" or "cifg" not in self.parts) for gate in "ifco"]
        return [self.row(CELL, _NORM_SCALE) if one else None for one in kept]


def lstm(
    operator: str,
    dtype: str,
    parts: Collection[str] = (),
    *,
    batch: int = 2,
    steps: int = 4,
    activation: int = 4,
    cell_scale: float = _CELL_SCALE,
    name: str = "",
) -> Program:
    """Return an LSTM of one step, or of a sequence."""
    described = "_".join((dtype, *parts, *([name] if name else [])))
    program = Program(operator, described)
    output = OUTPUT if "projection" in parts else CELL
    is_time_major = "time_major" in parts
    sizes: tuple[int, ...] = (steps, batch) if is_time_major else (batch, steps)
    sizes = (batch,) if operator == "LSTM" else sizes
    is_float = dtype == "float32"
    kinds = (None, None, None) if is_float else (_INPUT, _STATE, Quantized((cell_scale,)))
    x = program.input(dtype, (*sizes, INPUT), quantized=kinds[0])
    weights = _Weights(program, dtype, parts, _WEIGHTS)
    values: list[Value | None] = [x, *weights.operands(INPUT, output)]
    values.append(program.variable(dtype, (batch, output), kinds[1]))
    values.append(program.variable(dtype if is_float else "int16", (batch, CELL), kinds[2]))
    values += weights.norms()
    options: dict[str, Any] = {"activation": activation}
    options["cell_clip"] = 0.6 if "cell_clip" in parts else 0.0
    options["proj_clip"] = 0.4 if "proj_clip" in parts else 0.0
    if operator != "LSTM":
        options["time_major"] = is_time_major
    result: Result = (dtype, (*sizes, output), kinds[1])
    program.returns(program.apply(operator, values, result, **options))
    if not is_float:
        gates = [("int16", Quantized((_GATE_SCALE * (1 + n / 9),))) for n in range(4)]
        program.add_intermediates(*gates, ("int8", _HIDDEN if "projection" in parts else _STATE))
    return program


def both_lstms(parts: Collection[str] = (), *, activation: int = 4) -> Program:
    """Return an LSTM in both directions.

    "aux": a second input, "linked": one without weights of its own.
    """
    program = Program("BIDIRECTIONAL_SEQUENCE_LSTM", "_".join(("float32", *parts)))
    batch, steps = 2, 4
    is_time_major = "time_major" in parts
    sizes = (steps, batch) if is_time_major else (batch, steps)
    output = OUTPUT if "projection" in parts else CELL
    x = program.input("float32", (*sizes, INPUT))
    weights = _Weights(program, "float32", parts, 1.0)
    values: list[Value | None] = [x]
    for _ in range(2):
        values += weights.operands(INPUT, output)
    for _ in range(2):
        values += [program.variable("float32", (batch, size)) for size in (output, CELL)]
    has_aux = "aux" in parts
    values.append(
        program.input("float32", (*sizes, INPUT)) if has_aux or "linked" in parts else None
    )
    for _ in range(2):
        kept = [has_aux and (gate != "i" or "cifg" not in parts) for gate in "ifco"]
        values += [weights.matrix(CELL, INPUT) if one else None for one in kept]
    is_merged = "merged" in parts
    shapes = [(*sizes, 2 * output)] if is_merged else [(*sizes, output)] * 2
    options: dict[str, Any] = {"activation": activation, "time_major": is_time_major}
    options |= {"merge_outputs": is_merged, "cell_clip": 0.0, "proj_clip": 0.0}
    results = [("float32", shape) for shape in shapes]
    return program.returns(program.apply(program.operator, values, *results, **options))


def rnn(
    operator: str, parts: Collection[str] = (), *, activation: int = 4, steps: int = 4
) -> Program:
    """Return a cell without gates, of one step or of a sequence."""
    program = Program(operator, "_".join(("float32", *parts, f"{activation}")))
    batch = 2
    is_time_major = "time_major" in parts
    sizes: tuple[int, ...] = (steps, batch) if is_time_major else (batch, steps)
    sizes = (batch,) if operator == "RNN" else sizes
    directions = 2 if operator == "BIDIRECTIONAL_SEQUENCE_RNN" else 1

    def matrix(*shape: int) -> Value:
        return program.random("float32", shape, (-0.7, 0.7))

    values: list[Value | None] = [program.input("float32", (*sizes, INPUT))]
    for _ in range(directions):
        values += [matrix(CELL, INPUT), matrix(CELL, CELL), matrix(CELL)]
        values.append(program.variable("float32", (batch, CELL)))
    options: dict[str, Any] = {"activation": activation}
    if operator != "RNN":
        options["time_major"] = is_time_major
    count = directions
    if directions == 2:
        has_aux = "aux" in parts
        is_given = has_aux or "linked" in parts
        values.append(program.input("float32", (*sizes, INPUT)) if is_given else None)
        values += [matrix(CELL, INPUT) if has_aux else None for _ in range(2)]
        options["merge_outputs"] = "merged" in parts
        count = 1 if "merged" in parts else 2
    results = [("float32", (*sizes, CELL * directions // count))] * count
    return program.returns(program.apply(operator, values, *results, **options))


def svdf(
    dtype: str, rank: int = 1, *, bias: bool = True, activation: int = 0, memory: int = 3
) -> Program:
    """Return an SVDF of two units."""
    described = f"{dtype}_rank_{rank}_memory_{memory}_{activation}" + "_bias" * bias
    program = Program("SVDF", described)
    batch, units = 2, 2
    filters = units * rank
    is_float = dtype == "float32"
    given, state, made = (None, None, None) if is_float else (_INPUT, Quantized((0.002,)), _STATE)
    x = program.input(dtype, (batch, INPUT), quantized=given)
    weights, time = Quantized((_WEIGHTS,)), Quantized((0.00004,))
    values: list[Value | None] = [
        x,
        program.random(dtype, (filters, INPUT), quantized=None if is_float else weights),
        program.random(
            "float32" if is_float else "int16",
            (filters, memory),
            (-2, 2) if is_float else (-30000, 30000),
            quantized=None if is_float else time,
        ),
    ]
    scale = Quantized((0.002 * 0.00004,))
    row = (
        program.random("float32", (units,))
        if is_float
        else program.random("int32", (units,), (-9000000, 9000000), quantized=scale)
    )
    values.append(row if bias else None)
    values.append(
        program.variable(dtype if is_float else "int16", (batch, memory * filters), state)
    )
    result: Result = (dtype, (batch, units), made)
    return program.returns(program.apply("SVDF", values, result, rank=rank, activation=activation))


def cells() -> Programs:
    """Iterate over each operator in its variants.

    Those of integers are equal to TFLite's, bit for bit.
    """
    for dtype in ("float32", "int8"):
        for parts in VARIANTS:
            yield lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", dtype, parts)
        for bits in (9, 12, 15):
            if dtype == "int8":
                scale = 2.0**-bits
                yield lstm(
                    *("UNIDIRECTIONAL_SEQUENCE_LSTM", dtype), cell_scale=scale, name=f"cell_{bits}"
                )
        yield lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", dtype, steps=60, batch=1, name="long")
        for parts in (VARIANTS[0], VARIANTS[6]):
            yield lstm("LSTM", dtype, parts)
        for rank, memory, bias in ((1, 3, True), (2, 5, False), (2, 1, True)):
            yield svdf(dtype, rank, bias=bias, activation=1, memory=memory)
    for activation in (1, 2, 3):
        yield lstm(
            *("UNIDIRECTIONAL_SEQUENCE_LSTM", "float32"),
            activation=activation,
            name=f"activation_{activation}",
        )
        yield svdf("float32", activation=activation + 1)
    # Merged outputs after the batch: LiteRT 2.3.0 reads memory that it has not written.
    for parts in ((), ("time_major", "merged"), ("aux",), ("linked",), (*VARIANTS[4], "aux")):
        yield both_lstms(parts)
    for activation in range(5):
        yield rnn("RNN", activation=activation)
    for parts in ((), ("time_major",)):
        yield rnn("UNIDIRECTIONAL_SEQUENCE_RNN", parts)
    yield rnn("UNIDIRECTIONAL_SEQUENCE_RNN", ("long",), steps=400)
    for parts in ((), ("merged",), ("aux",), ("linked",), ("linked", "time_major")):
        yield rnn("BIDIRECTIONAL_SEQUENCE_RNN", parts)
