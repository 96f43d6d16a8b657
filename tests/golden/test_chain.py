"""`chain`: sources are matched tensor by tensor, and the link at which an error comes in is named."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.conftest import Builder, MakeBuilder

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import Array, save_npz
from tosa_convert.golden.backends.recorded_tensors import (
    Recorded,
    Source,
    in_layout,
    place_of,
    recorded,
    recovered,
    relative_error,
    same_tensors,
    tensors_of,
)
from tosa_convert.graph import Graph, Operator, dtype, operator
from tosa_convert.graph.constant import constant_of
from tosa_convert.qualify.chain.chain import Chain
from tosa_convert.qualify.chain.matched import Table
from tosa_convert.qualify.chain.quantised import _STEEP, TIMES
from tosa_convert.views.pictures.diagram import build_diagram
from tosa_convert.views.pictures.errors_overlay import overlay

SHAPE = (1, 4, 8)
X = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def network(builder: MakeBuilder, weight: float = 0.5) -> Graph:
    """Return x * weight, its exponential, and a sum of both."""
    b = builder()
    b.input("x", "FP32", SHAPE)
    b.const("w", "FP32", np.full((1, 1, 8), weight))
    b.const("shift", "INT8", [0])
    b.op("MUL", ["x", "w", "shift"], "scaled", "FP32", SHAPE)
    b.op("EXP", ["scaled"], "e", "FP32", SHAPE)
    b.op("ADD", ["e", "scaled"], "y", "FP32", SHAPE)
    return b.graph("y")


#: What each tensor of the network is computed from.
OPERANDS = {"scaled": (), "e": ("scaled",), "y": ("e", "scaled")}


def model(**changes: Callable[[Array], Array]) -> Source:
    """Return what a framework's model of the network has, with changes, which later tensors follow."""

    def changed(name: str, array: Array) -> Array:
        return changes[name](array) if name in changes else array

    scaled = changed("scaled", X * np.float32(0.5))
    e = changed("e", np.exp(scaled))
    arrays = {"scaled": scaled, "e": e, "y": changed("y", e + scaled)}
    rows = [
        recorded(name, partial(np.asarray, array), operands=OPERANDS[name])
        for name, array in arrays.items()
    ]
    return Source("", tuple(rows))


def test_a_right_chain_is_accepted_with_a_table(builder: MakeBuilder) -> None:
    graph = network(builder)
    result = golden.chain({"float": model(), "tosa": graph, "device": "numpy"}, {"x": X})
    assert result.ok
    assert result.first is None
    assert [row.name for row in result.rows] == ["scaled", "e", "y"]
    cell = result.rows[-1].cells["device"]
    assert cell is not None
    assert cell.before <= cell.first + 1e-6
    assert cell.snr > 100
    assert str(result).splitlines()[-1].startswith("ok   tosa -> device")
    assert "<pre>" in result._repr_html_()


@pytest.mark.parametrize("name", ["scaled", "e", "y"])
def test_the_tensor_of_a_wrong_model_is_named(builder: MakeBuilder, name: str) -> None:
    wrong = model(**{name: lambda a: a * np.float32(1.01)})
    result = golden.chain({"float": wrong, "tosa": network(builder)}, {"x": X}, engine="numpy")
    assert not result.ok
    assert result.first is not None
    assert (result.first.before, result.first.after, result.first.tensor) == ("float", "tosa", name)
    (named,) = result.first.operators
    assert named.split()[2] == {"scaled": "MUL", "e": "EXP", "y": "ADD"}[name]


def test_the_link_of_a_wrong_program_and_of_a_wrong_device_is_named(builder: MakeBuilder) -> None:
    graph, other = network(builder), network(builder, 0.5005)
    found = golden.chain({"float": model(), "tosa": other, "device": "numpy"}, {"x": X})
    assert [link.ok for link in found.links] == [False, True]
    found = golden.chain({"float": model(), "tosa": graph, "rewritten": other}, {"x": X})
    assert [link.ok for link in found.links] == [True, False]
    right = golden.run(graph, {"x": X}, intermediates="*").intermediates
    wrong = {**right, "e": right["e"] + 1, "y": right["y"] + 1}
    found = golden.chain({"float": model(), "tosa": graph, "device": wrong}, {"x": X})
    assert found.first is not None
    assert (found.first.after, found.first.operators) == ("device", ('operator #3 EXP loc("e")',))


def test_noise_of_quantisation_is_explained_by_its_scale(builder: MakeBuilder) -> None:
    scale = 0.02
    rounded = model(scaled=lambda a: (np.round(a / scale) * scale).astype(np.float32))
    named = {row.name: row for row in rounded.tensors}
    integers = Recorded(
        "quantised",
        lambda: np.round(named["scaled"].read() / scale).astype(np.int8),
        SHAPE,
        "int8",
        scale=(scale, 0),
    )

    def quantised(source: Source) -> Source:
        first, *others = source.tensors
        return Source("", (integers, first._replace(operands=("quantised",)), *others))

    fake = quantised(rounded)
    found = golden.chain({"float": model(), "fake": fake}, {"x": X})
    assert found.ok, found
    assert "errors of at most 1.5 % of the values" in found.links[0].reason
    share = found.rows[0].cells["fake"]
    assert share is not None
    assert 0 < (share.share or 0) < 1
    # Without the step that explains it, or with a larger error, it is not accepted.
    assert not golden.chain({"float": model(), "fake": rounded}, {"x": X}).ok
    wrong = model(scaled=lambda a: a + np.float32(2 * TIMES * scale))
    found = golden.chain({"float": model(), "fake": quantised(wrong)}, {"x": X})
    assert found.first is not None
    assert found.first.tensor == "scaled"
    assert "quantisation" in found.first.reason


def steps(*rows: tuple[str, Array, str]) -> Source:
    """Return the tensors of a model: the name, the array, and what it is computed from."""
    found = [
        recorded(name, partial(np.asarray, array), operands=tuple(given.split()))
        for name, array, given in rows
    ]
    scaled = [row._replace(scale=(SCALE, 0)) if row.dtype == "int8" else row for row in found]
    return Source("", tuple(scaled))


#: Of the integers in `steps`.
SCALE = 0.001


@pytest.mark.parametrize("factor", [1, 1.5])
@pytest.mark.parametrize("names", ["conv y", "conv conv", "conv norm", "y conv"])
def test_tensors_of_joined_operators_are_matched_by_their_numbers(
    names: str, factor: float
) -> None:
    norm, y = X * 2 + 1, np.maximum(X, 0)
    before = steps(("conv", X, ""), ("norm", norm, "conv"), ("y", y, "norm"))
    first, last = names.split()
    rows = {"norm": (first, norm * factor, ""), "y": ("end", y * factor, first)}
    # A copy of the result may have the name, or the last result that of an earlier one.
    copies = [(last, norm * factor, first)] if last in ("norm", "conv") and last != first else []
    after = steps(rows["norm"], *copies, rows["y"])
    found = golden.chain({"float": before, "fake": after}, {"x": X})
    assert found.ok is (factor == 1), found
    assert factor > 1 or "norm" in [row.name for row in found.rows]


@pytest.mark.parametrize("count", [1, X.size])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_nothing_explains_what_is_not_finite(wrong: float, count: int) -> None:
    spoiled = X.copy()
    spoiled.reshape(-1)[:count] = wrong
    right = steps(("a", X, ""), ("y", X, "a"))
    found = golden.chain({"float": right, "fake": steps(("a", spoiled, ""), ("y", spoiled, "a"))})
    assert found.links[0].tensor == "a"
    # Integers hold no infinity of a mask.
    masked = steps(("a", spoiled, ""), ("y", X, "a"))
    assert golden.chain({"float": masked, "fake": right}).ok


@pytest.mark.parametrize(
    ("low", "high", "activation", "tensor"),
    [(-127, 127, X, ""), (-20, 20, X, "q"), (0, 127, X, "q"), (0, 127, np.maximum(X, 0), "")],
)
def test_integers_that_cut_values_off_are_named(
    low: int, high: int, activation: Array, tensor: str
) -> None:
    before = steps(("a", X, ""), ("y", activation, "a"))
    scale = float(np.abs(X).max()) / 127
    integers = np.clip(np.round(X / scale), low, high).astype(np.int8)
    rows = steps(("a", X, ""), ("q", integers, "a"), ("y", integers * np.float32(scale), "q"))
    tensors = [row._replace(scale=row.scale and (scale, 0)) for row in rows.tensors]
    found = golden.chain({"float": before, "fake": Source("", tuple(tensors))}, {"x": X})
    assert found.links[0].tensor == tensor
    assert found.links[0].reason.endswith("cut values off") is bool(tensor)


def test_noise_of_a_small_operand_explains_little() -> None:
    mean = np.where(X > 0, 1, -1).astype(np.int8)
    centred = X - mean * np.float32(SCALE)
    before = steps(("a", X, ""), ("b", centred, "a"), ("y", centred, "b"))
    for factor in (1, 1.5):
        rows: list[tuple[str, Array, str]] = [
            ("a", X, ""),
            ("mean", mean, "a"),
            ("c", centred, "a mean"),
            ("y", centred * factor, "c"),
        ]
        found = golden.chain({"float": before, "fake": steps(*rows)}, {"x": X})
        assert found.ok is (factor == 1), found


def test_samples_have_quantiles_and_calls_keep_states(builder: MakeBuilder) -> None:
    graph = network(builder)
    samples = [{"x": X * np.float32(k)} for k in range(3)]
    device = golden.open_backend("numpy", graph, samples[0])
    found = golden.chain({"tosa": graph, "again": graph, "device": device}, samples)
    assert found.ok
    cell = found.rows[-1].cells["again"]
    assert cell is not None
    assert cell.quantiles == (0, 0, 0)
    assert "worst of 3 samples" in str(found)


def counter(builder: MakeBuilder, step: float) -> Graph:
    """Return a program whose variable grows by its input times a factor in each call."""
    b: Builder = builder()
    b.input("x", "FP32", (4,))
    initial = constant_of(np.zeros(4, np.float32), dtype("FP32"))
    b.tensor("total", "FP32", (4,), data=initial, variable=True, variable_name="total")
    b.const("factor", "FP32", np.full(4, step))
    b.const("shift", "INT8", [0])
    b.op("MUL", ["x", "factor", "shift"], "step", "FP32", (4,))
    b.op("VARIABLE_READ", ["total"], "before", "FP32", (4,))
    b.op("ADD", ["before", "step"], "after", "FP32", (4,))
    write = Operator(operator("VARIABLE_WRITE"), ("after",), ("total",))
    b.block.operators.append(write)
    return b.graph("after")


def test_calls_in_a_row_show_at_which_an_error_grows(builder: MakeBuilder) -> None:
    calls = [{"x": np.ones(4, np.float32)} for _ in range(3)]
    sources = {"tosa": counter(builder, 1), "rewritten": counter(builder, 1.5)}
    found = golden.chain(sources, calls, calls=True, engine="numpy")
    rows = {row.name: row.cells["rewritten"] for row in found.rows}
    errors = [rows[f"after (call {k})"] for k in range(3)]
    assert [cell and cell.before for cell in errors] == [0.5, 1, 1.5]
    assert found.first is not None
    assert (found.first.run, found.first.operators) == ("call 0", ('operator #2 MUL loc("step")',))


@pytest.mark.parametrize("in_a_row", [True, False])
def test_perplexity_is_that_of_the_next_tokens(builder: MakeBuilder, in_a_row: bool) -> None:
    table = np.random.default_rng(1).normal(size=(1, 7, 7)).astype(np.float32)
    b = builder()
    b.input("tokens", "INT32", (1, 3))
    b.const("table", "FP32", table)
    b.op("GATHER", ["table", "tokens"], "logits", "FP32", (1, 3, 7))
    graph = b.graph("logits")
    calls = [{"tokens": np.array([row], np.int32)} for row in ([1, 5, 2], [6, 0, 3])]
    even = np.zeros((1, 3, 7), np.float32)
    sources = {"tosa": graph, "device": {"logits": even}}
    found = golden.chain(sources, calls, calls=in_a_row, perplexity="tokens", engine="numpy")
    # What a row of the table says of the token that comes next; between texts nothing is predicted.
    pairs = [(1, 5), (5, 2), *([(2, 6)] if in_a_row else []), (6, 0), (0, 3)]
    logs = table[0] - np.log(np.exp(table[0]).sum(axis=1, keepdims=True))
    expected = float(np.exp(-np.mean([logs[pair] for pair in pairs])))
    assert found.perplexity == pytest.approx({"tosa": expected, "device": 7}, rel=1e-6)
    assert f"perplexity: tosa {expected:.5g}, device 7" in str(found)
    assert found.to_dict()["perplexity"]["device"] == pytest.approx(7)
    # Integers without a scale stand for no numbers.
    sources = {"tosa": graph, "device": {"logits": even.astype(np.int8)}}
    found = golden.chain(sources, calls, calls=in_a_row, perplexity="tokens", engine="numpy")
    assert list(found.perplexity) == ["tosa"]
    assert "note: device: no perplexity" in str(found)


def test_perplexity_needs_tokens_of_the_vocabulary(builder: MakeBuilder) -> None:
    sources = {"tosa": network(builder), "device": "numpy"}
    for name, text in (("x", "'x' of integers, it has float32"), ("y", "'y' of integers, found x")):
        with pytest.raises(TosaConvertError, match=text):
            golden.chain(sources, {"x": X}, perplexity=name, engine="numpy")


def rows(*names: tuple[str, Any, tuple[int, ...]]) -> list[Recorded]:
    return [
        Recorded(name, partial(np.zeros, shape), shape, "float32", place)
        for name, place, shape in names
    ]


def test_names_places_and_layouts_say_which_tensors_are_the_same() -> None:
    left = rows(("a", "", (2, 3)), ("b", "n", (4,)), ("c", "p", (1, 3, 5, 6)), ("d", "p", (9,)))
    right = rows(("a", "", (2, 3)), ("z", "p", (1, 5, 6, 3)), ("b", "m", (4,)), ("y", "p", (9,)))
    # Of one name, and of different places; of one place, and in another layout.
    assert same_tensors(left, right) == {0: 0, 2: 1, 3: 3}
    # The last one of each shape at a place is its result.
    steps = rows(("s", "p", (9,)), ("t", "p", (9,)))
    assert same_tensors(left, steps) == {3: 1}
    # Numbers of a line are each converter's own.
    line = (("f.py", 3),)
    assert same_tensors(rows(("add_1", line, (2,))), rows(("add_1", line, (2,)))) == {0: 0}
    mine = [rows(("add_1", line, (3,)))[0]._replace(operator="operator #1 ADD")]
    theirs = rows(("add_1", line, (3,)), ("add_2", line, (3,)))
    assert same_tensors(mine, theirs) == {0: 1}


def test_an_array_is_turned_into_the_layout_of_another() -> None:
    image = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert np.array_equal(in_layout(image.transpose(0, 2, 3, 1), image), image)
    square = np.arange(64).reshape(1, 4, 4, 4)
    assert np.array_equal(in_layout(square.transpose(0, 3, 1, 2), square), square)
    assert in_layout(np.zeros((1, 1, 6)), np.zeros(6)).shape == (6,)
    assert place_of("loc(unknown)") == ()


def test_what_recovers_is_another_tensor(builder: MakeBuilder) -> None:
    graph = network(builder)
    rows = tensors_of(graph, lambda key: X)
    assert [row.name for row in rows] == ["scaled", "e", "y"]
    assert recovered(rows, {"scaled": 1.0, "e": 1e-7, "y": 1e-7}) == {"scaled"}
    assert recovered(rows, {"scaled": 1.0, "e": 0.5, "y": 1e-7}) == {"scaled", "e"}
    assert not recovered(rows, {"scaled": 1.0, "e": 0.5, "y": 0.3})
    assert not recovered(rows, {"scaled": np.inf, "e": 1e-7, "y": 1e-7})
    # Zeros beside small numbers are another tensor, too.
    assert relative_error(np.full(4, 1e-3), np.zeros(4)) == 1
    assert relative_error(np.zeros(4), np.zeros(4)) == 0


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        ({"one": "numpy"}, "fewer than two sources"),
        ({"device": "numpy", "again": "numpy"}, "no program before it"),
        ({"a": "keras:x", "b": "numpy"}, "cannot be run here"),
    ],
)
def test_what_is_no_chain_is_refused(sources: dict[str, str], text: str) -> None:
    with pytest.raises(TosaConvertError, match=text):
        golden.chain(sources, {})


def test_the_verb_prints_a_table_json_and_a_picture(
    builder: MakeBuilder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(network(builder), "m.tosa")
    tc.save(network(builder, 0.6), "m2.tosa")
    np.save("x.npy", X)
    words = ["chain", "tosa=m.tosa", "rewritten=m2.tosa", "device=numpy", "-i", "x.npy"]
    assert run(tosa_flatbuffer, words) == 1
    assert "FAIL tosa -> rewritten: scaled" in capsys.readouterr().out
    assert run(tosa_flatbuffer, [*words, "--json"]) == 1
    content = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in content["chain"]] == ["scaled", "e", "y"]
    found = overlay(build_diagram(tc.load("m2.tosa"), "auto"), content)
    assert [(row.ok, row.inherits) for row in found.rows] == [
        (False, False),
        (True, False),
        (True, False),
    ]
    assert found.rows[0].text.startswith("tosa -> rewritten: it does not follow")
    save_npz(Path("samples.npz"), {"x": np.stack([X, X + 1])})
    words = ["chain", "a=m.tosa", "b=m.tosa", "--calibration", "samples.npz"]
    assert run(tosa_flatbuffer, words) == 0
    assert run(tosa_flatbuffer, ["chain", "m.tosa"]) == 2
    assert run(tosa_flatbuffer, [*words, "--json", "--html", "-"]) == 2
    capsys.readouterr()
    if importlib.util.find_spec("fast_sugiyama"):
        assert run(tosa_flatbuffer, [*words, "--html", "chain.html"]) == 0
        assert '"source":"chain"' in Path("chain.html").read_text(encoding="utf-8")


def test_the_result_is_a_chain(builder: MakeBuilder) -> None:
    found = golden.chain({"a": network(builder), "b": network(builder)}, random=0)
    assert isinstance(found, Chain)
    assert json.loads(json.dumps(found.to_dict()))["ok"]


def test_a_program_of_integers_is_given_the_models_own(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "INT8", SHAPE)
    b.op("CAST", ["x"], "y", "FP32", SHAPE)
    graph = b.graph("y")
    integers = np.clip(np.round(X / 0.05) + 3, -128, 127).astype(np.int8)
    quantised = Recorded("q", lambda: integers, SHAPE, "int8", scale=(0.05, 3))
    result = recorded("y", lambda: integers.astype(np.float32), operands=("q",))
    model = Source("", (quantised, result))
    found = golden.chain({"fakequant": model, "tosa": graph}, {"x": X}, engine="numpy")
    assert found.ok, found
    assert [row.name for row in found.rows] == ["y"]
    other = Source("", (quantised._replace(scale=(0.5, 0)), result))
    with pytest.raises(TosaConvertError, match="expected int8"):
        golden.chain({"fakequant": other, "tosa": graph}, {"x": X}, engine="numpy")


@pytest.mark.parametrize(("kind", "scale", "count"), [("i4", 1, 0), ("i1", 1, 1), ("i4", 0, 1)])
def test_quantised_integers_of_another_width_are_not_compared(
    kind: str, scale: int, count: int
) -> None:
    table = Table()
    integers = recorded("a", partial(np.ones, 3, "i1"), scale=(scale, 7) if scale else None)
    table.add(Source("model", (integers,)))
    table.add(Source("program", (recorded("a", partial(np.ones, 3, kind)),)))
    assert len(table.arrays_of(*table.sources)) == count


@pytest.mark.parametrize(
    ("name", "is_steep"),
    [
        *(("exp", True), ("exp_1", True), ("/a/Softmax_output_0", True), ("_softmax", True)),
        *(("expand_as", False), ("/processing/Mul", False), ("cosine_embedding", False)),
    ],
)
def test_exponentials_are_known_by_whole_words(name: str, is_steep: bool) -> None:
    assert bool(_STEEP.search(name)) is is_steep
