"""Recurrent operators of TFLite in several calls, with states, against LiteRT's reference kernels."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE
from frontends.recorded_tflite import expected, in_process, merged
from frontends.tflite_operators.cells import both_lstms, cells, lstm, rnn, svdf
from frontends.tflite_operators.programs import Program, Value
from frontends.tflite_operators.values import Quantized
from frontends.tflite_operators.write import write

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

pytestmark = NEEDS_TFLITE


def compare(folder: Path, program: Program, calls: int = 3) -> None:
    """Call program and model with other inputs each time; outputs and states are equal."""
    graph = in_process(program.data())
    assert tc.validate(graph) == []
    inputs = [
        {name: np.roll(array, call) for name, array in program.arrays.items()}
        for call in range(calls)
    ]
    states = [one.name for one in program.tensors if one.is_variable]
    arrays = [array for one in inputs for array in one.values()]
    results = iter(expected(program.data(), arrays, folder, states))
    variables: Mapping[str, Any] | None = None
    for given in inputs:
        found = tc.run(graph, given, variables=variables, engine="numpy")
        variables = found.variables
        assert variables
        ours = [*found.outputs.items(), *((name, variables[name]) for name in states)]
        for (name, array), theirs in zip(ours, results, strict=False):
            if theirs.dtype == np.float32:
                np.testing.assert_allclose(array, theirs, rtol=5e-6, atol=5e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(array, theirs, err_msg=name)
                assert len(np.unique(theirs)) > 1
    assert next(results, None) is None


@pytest.mark.parametrize(
    ("dtype", "is_long"),
    [("int8", False), ("float32", False), pytest.param("", True, marks=pytest.mark.slow)],
)
def test_calls_and_states_are_those_of_tflite(tmp_path: Path, dtype: str, is_long: bool) -> None:
    """Of all variants, which are one model."""
    chosen = [
        one for one in cells() if one.name.startswith(dtype) and ("long" in one.name) is is_long
    ]
    compare(tmp_path, merged(chosen))


@pytest.mark.slow
def test_layer_normalisation_and_clips_of_many_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel has sums of 64 bits, and takes the weights of the cell by the size of the output."""
    for size in (2, 8, 33):
        monkeypatch.setattr("frontends.tflite_operators.cells.CELL", size)
        for parts in (("norm",), ("peephole", "projection"), ("peephole", "norm", "time_major")):
            compare(tmp_path, lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", "int8", parts, steps=2), 2)


@pytest.mark.parametrize(("dtype", "factors"), [("int8", (300.0, 1e-4)), ("float32", (1e-4,))])
def test_layer_normalisation_has_a_variance_of_any_size(
    dtype: str, factors: tuple[float, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of gates that are all at their ends, and of gates that are all nearly 0."""
    monkeypatch.setattr("frontends.tflite_operators.cells.CELL", 8)
    programs = []
    for factor in factors:
        program = lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", dtype, ("norm",), steps=2, name=f"{factor}")
        for place in range(1, 9):
            number = program.rows[0].inputs[place]
            row = program.tensors[number]
            assert row.data is not None
            data = row.data if row.scales else row.data * np.float32(factor)
            scales = tuple(scale * factor for scale in row.scales)
            program.tensors[number] = replace(row, data=data, scales=scales)
        programs.append(program)
    compare(tmp_path, merged(programs), 2)


@pytest.mark.parametrize("gate", ["i", "c"])
def test_the_functions_of_gates_are_those_of_tflite_for_every_input(
    tmp_path: Path, gate: str
) -> None:
    """Only biases are not 0: one gate has each number of int16, and the cell has what it gives."""
    program = Program("LSTM", f"all_inputs_of_{gate}")
    count, one = 1 << 16, Quantized((2.0**-12,))
    x = program.input("int8", (1, 1), quantized=Quantized((1.0,)))

    def zeros(rows: int, columns: int) -> Value:
        return program.constant(np.zeros((rows, columns)), "int8", quantized=one)

    def bias(kind: str) -> Value:
        numbers = np.arange(-(1 << 15), 1 << 15) if kind == gate else np.full(count, 32767)
        return program.constant(numbers, "int32", quantized=one)

    values: list[Value | None] = [x, *(zeros(count, 1) for _ in range(8)), None, None, None]
    values += [*map(bias, "ifco"), zeros(1, count), None]
    values.append(program.variable("int8", (1, 1), Quantized((1.0,))))
    values.append(program.variable("int16", (1, count), Quantized((2.0**-15,))))
    values += [None] * 4
    made = program.apply("LSTM", values, ("int8", (1, 1), Quantized((1.0,))), activation=4)
    program.returns(made)
    rows = [("int16", one)] * 4
    program.add_intermediates(*rows, ("int8", Quantized((1 / 128,))))
    found = tc.run(tc.frontends.from_tflite(write(program, tmp_path)), program.arrays).variables
    (cell,) = (name for name, array in found.items() if array.size == count)
    _, theirs = expected(program.data(), list(program.arrays.values()), tmp_path, [cell])
    np.testing.assert_array_equal(found[cell], theirs)
    assert len(np.unique(theirs)) > 5000


@pytest.mark.slow
def test_a_long_sequence_is_a_loop_and_a_short_one_is_not(tmp_path: Path) -> None:
    for steps, has_loop in ((150, False), (400, True)):
        program = rnn("UNIDIRECTIONAL_SEQUENCE_RNN", ("steps", str(steps)), steps=steps)
        graph = tc.frontends.from_tflite(write(program, tmp_path))
        kinds = [one.spec.name for one in graph.main.operators]
        assert ("WHILE_LOOP" in kinds) is has_loop
        assert len(graph.regions) == (3 if has_loop else 1)


@pytest.mark.slow
def test_weights_are_in_the_program_once(tmp_path: Path) -> None:
    graph = tc.frontends.from_tflite(write(lstm("LSTM", "int8", steps=1, name="once"), tmp_path))
    unrolled = lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", "int8", steps=9, name="once")
    steps = tc.frontends.from_tflite(write(unrolled, tmp_path))
    sizes = [
        sum(t.data.numpy().size for t in one.main.tensors.values() if t.data is not None)
        for one in (graph, steps)
    ]
    assert sizes[1] < sizes[0] + 1000


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lstm("LSTM", "float32", activation=0, name="none"), "its activation is NONE"),
        (svdf("float32"), "TFLite quantises the inputs in each call"),
        (rnn("RNN"), "TFLite quantises the inputs in each call"),
        (lstm("LSTM", "float32"), "TFLite quantises the inputs in each call"),
        (svdf("int8"), "TFLite has no kernel with its types"),
        (rnn("RNN"), "TFLite has no kernel with its types"),
        (both_lstms(), "TFLite has no kernel with its types"),
        (rnn("RNN", activation=5), "TFLite has no kernel with its types"),
    ],
    ids=["activation", "SVDF", "RNN", "LSTM", "short SVDF", "short RNN", "short both", "sign"],
)
def test_what_is_not_lowered_is_named_with_the_reason(
    tmp_path: Path, program: Program, reason: str
) -> None:
    if "quantises" in reason:  # Some weights become integers.
        place = 1
        row = program.tensors[place]
        assert row.data is not None
        program.tensors[place] = type(row)(
            row.name, "int8", row.shape, row.data.astype(np.int8), (0.01,), (0,)
        )
    if "types" in reason and program.rows[0].options["activation"] != 5:
        program.tensors[0] = replace(program.tensors[0], dtype="int16", scales=(0.1,))
    with pytest.raises(tc.TosaConvertError, match=reason) as caught:
        tc.frontends.from_tflite(write(program, tmp_path))
    assert caught.value.code == "not-lowered"
    assert program.operator in str(caught.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"options": {"kernel_type": 1}}, "it is the basic kernel"),
        ({"intermediates": (0,) * 12}, "its kernel computes in floating point between integers"),
        ({"intermediates": (0,) * 4}, "TFLite has no kernel with its types"),
        ({"inputs": {1: 0}}, "its weights are computed"),
        ({"inputs": {18: 0}}, "LSTM of int8, int32, int16 does not have the operands"),
        ({"dtype": "int16"}, "TFLite has no kernel with its types"),
        ({"scale": 0.0007}, "TFLite has no kernel with its types"),
        ({"scale": 2.0**-8}, "TFLite has no kernel with its types"),
    ],
)
def test_an_lstm_that_tflite_does_not_have_is_refused(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    program = lstm("LSTM", "int8", cell_scale=change.get("scale", 2.0**-11))
    row = program.rows[0]
    inputs = list(row.inputs)
    for place, number in change.get("inputs", {}).items():
        inputs[place] = number
    if "dtype" in change:
        program.tensors[0] = replace(program.tensors[0], dtype=change["dtype"])
    changed = replace(
        row, inputs=tuple(inputs), options={**row.options, **change.get("options", {})}
    )
    inner = change.get("intermediates", row.intermediates)
    program.rows[0] = replace(changed, intermediates=inner)
    with pytest.raises(tc.TosaConvertError, match=reason):
        tc.frontends.from_tflite(write(program, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "kept"), [("s4", "s4"), ("tfl.pseudo_qconst1", "svdf_0_state_4")]
)
@pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"
)
def test_check_calls_the_model_three_times_and_compares_its_states(
    given: str, kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = svdf("int8", activation=1)
    program.tensors[4] = replace(program.tensors[4], name=given)
    path = write(program, tmp_path)
    words = [str(path), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), words) == 0
    lines = capsys.readouterr().out
    for call in (1, 2, 3):
        assert f"ok   t5 (call {call}) int8[2, 2]" in lines
        assert f"ok   variable:{kept} (call {call}) int16[2, 6]" in lines
