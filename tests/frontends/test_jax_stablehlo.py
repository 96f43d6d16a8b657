"""Modules of StableHLO become programs that compute what XLA computes of the same module."""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from frontends.jax_runs import jax
from frontends.record_stablehlo import NOT_INTERPRETED, Interpreter, judge
from frontends.stablehlo_operations import CASES, FORMULAS, JUDGES, REFUSED, Case
from networks import JAX, networks

import tosa_convert as tc
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.module_header import NEVER_LOWERED
from tosa_convert.frontends.process.request import PROGRAM_FILE, Request

pytest.importorskip("flax", reason="flax is not installed")
jnp = jax.numpy
convert = pytest.importorskip("tosa_convert.frontends.stablehlo.convert")

#: Operations whose operands must be positive.
_POSITIVE: Final = ("log", "power", "rsqrt", "sqrt")
#: Operations of the dialect that its specification does not list.
_UNLISTED: Final = frozenset(
    (
        *("broadcast", "create_token", "cross-replica-sum", "dot", "einsum", "real_dynamic_slice"),
        *("return", "set_dimension_size", "torch_index_select", "unary_einsum"),
    )
)
_MYSTERY: Final = Case(
    "3xf32",
    "3xf32",
    "%r = stablehlo.custom_call @mystery(%a0) : (tensor<3xf32>) -> tensor<3xf32>",
)


def program(path: Path, **options: Any) -> tc.Graph:
    """Return the program of a file, which TOSA allows."""
    graph = tc.frontends.from_file(path, **options)
    assert tc.validate(graph) == []
    return graph


def lowered_here(path: Path) -> tc.Graph:
    """Return the program of a file as `program` does, in this process, which has imported JAX."""
    folder = path.parent / "lowered"
    folder.mkdir()
    interface = convert.lower(
        Request(frontend="stablehlo", source=str(path), shown=path.name), folder
    )
    assert interface.not_lowered == []
    graph = tc.load(folder / PROGRAM_FILE)
    assert tc.validate(graph) == []
    return graph


def by_xla(text: str, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Run a module with XLA."""
    from jax.extend.backend import get_backend

    _jax, xla_client = (
        importlib.import_module(f"jaxlib.{name}") for name in ("_jax", "xla_client")
    )
    client = get_backend("cpu")
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    compiled = client.compile_and_load(text, devices, xla_client.CompileOptions())
    given = [jax.device_put(array) for array in arrays]
    results = compiled.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(result[0]) for result in results]


def argument(name: str, kind: str, random: np.random.Generator) -> npt.NDArray[Any]:
    """Draw an argument of a type such as `2x3xf32`."""
    *sizes, element = kind.split("x")
    shape = tuple(map(int, sizes))
    if element == "f32":
        values = random.standard_normal(shape) * 2
        return np.asarray(np.abs(values) + 0.1 if name in _POSITIVE else values, np.float32)
    if element == "i1":
        return np.asarray(random.integers(0, 2, shape), np.bool_)
    if element.startswith("!quant.uniform<i8"):
        element = "i8"
    low, high = (-128, 128) if element == "i8" else (1, 4)
    return np.asarray(random.integers(low, high, shape), element.replace("i", "int"))


def agree(graph: tc.Graph, arrays: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert that a program returns these arrays."""
    inputs = dict(zip(graph.main.inputs, arrays, strict=True))
    found = tc.golden.run(graph, inputs, engine="numpy").outputs
    assert len(expected) == len(graph.main.outputs)
    for name, want in zip(graph.main.outputs, expected, strict=True):
        made = found[name].astype(np.float64)
        np.testing.assert_allclose(made, np.asarray(want, np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, cases in CASES.items() for n in range(len(cases))]
)
def test_an_operation_agrees_with_xla(tmp_path: Path, name: str, number: int) -> None:
    case = CASES[name][number]
    (tmp_path / "m.mlir").write_text(case.text())
    random = np.random.default_rng(number)
    arrays = [argument(name, kind, random) for kind in case.kinds()]
    if name in FORMULAS:
        expected: Sequence[Any] = [np.asarray(row) for row in FORMULAS[name](*arrays)]
    else:
        expected = by_xla(case.text(), arrays)
    agree(lowered_here(tmp_path / "m.mlir"), arrays, expected)


class Lowered:
    """Programs of modules, each of which is lowered once."""

    def __init__(self) -> None:
        self.programs: dict[str, tc.Graph] = {}

    def compare(self, text: str, arrays: list[Any], expected: list[Any]) -> None:
        """Assert that the program of a module returns arrays."""
        if text not in self.programs:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "m.mlir"
                path.write_text(text)
                self.programs[text] = lowered_here(path)
        agree(self.programs[text], arrays, [signed(array) for array in expected])


def signed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return unsigned integers as a program has them."""
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    found = Interpreter()
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operation_agrees_with_the_interpreter_on_edge_values(
    name: str, interpreter: Interpreter
) -> None:
    recorded = json.loads(JUDGES.read_text(encoding="utf-8"))
    assert judge(name, interpreter, Lowered().compare) == recorded["operations"][name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batch_norm_training", "cholesky", "custom_call", "fft"])
def test_what_is_left_out_ends_the_interpreter(name: str, interpreter: Interpreter) -> None:
    """If it does not, the interpreter can judge the operation."""
    case = CASES[name][0]
    assert name in NOT_INTERPRETED
    arrays = [argument(name, kind, np.random.default_rng(1)) for kind in case.kinds()]
    assert interpreter.is_unable(case.text(), arrays)


def test_the_interpreter_that_was_recorded_is_installed() -> None:
    recorded = json.loads(JUDGES.read_text(encoding="utf-8"))
    assert metadata.version("jaxlib") == recorded["jaxlib"]
    assert recorded["operations"].keys() == CASES.keys()


def test_each_operation_of_the_dialect_has_a_row() -> None:
    from jaxlib.mlir.dialects import _stablehlo_ops_gen as generated

    names = {str(getattr(row, "OPERATION_NAME", "")) for row in vars(generated).values()}
    dialect = {name.partition(".")[2] for name in names if name.startswith("stablehlo.")}
    assert not {*CASES} & {*REFUSED}
    assert {*CASES, *REFUSED} == dialect - _UNLISTED
    assert {*REFUSED} == NEVER_LOWERED


@pytest.mark.parametrize("name", REFUSED)
def test_what_tosa_cannot_hold_is_named_with_its_line_and_reason(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.mlir"
    reason, case = REFUSED[name]
    path.write_text(case.text())
    request = Request(frontend="stablehlo", source=str(path), shown=path.name)
    rows = convert.lower(request, tmp_path).not_lowered
    said = {row.operator.removeprefix("stablehlo."): row for row in rows}
    assert said[name].reason == reason, rows
    text = path.read_text().splitlines()
    line = int(said[name].where.partition(":")[2])
    assert f"stablehlo.{name}" in text[line - 1], rows


def test_all_that_does_not_lower_is_listed_with_its_line_and_advice(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(_MYSTERY.text())
    with pytest.raises(TosaConvertError, match="not-lowered") as caught:
        program(tmp_path / "m.mlir")
    assert "m.mlir:3" in str(caught.value)
    assert "compute it outside" in str(caught.value)


def example(x: Any, table: Any) -> dict[str, Any]:
    """Return a function with calls, a sort, a position, a loop and a gather."""
    best = jnp.argmax(x, axis=1)
    ordered = jnp.sort(x, axis=1)
    total = jax.lax.fori_loop(0, 3, lambda i, value: value * 2 + i, x.sum())
    return {
        "rows": jnp.take(table, best, axis=0),
        "shares": jax.nn.softmax(ordered),
        "total": total,
    }


@pytest.mark.parametrize("form", ["text", "artifact", "exported", "bytecode"])
def test_every_form_of_an_exported_function_is_read(tmp_path: Path, form: str) -> None:
    kinds = [jax.ShapeDtypeStruct((4, 5), jnp.float32), jax.ShapeDtypeStruct((5, 3), jnp.float32)]
    exported = jax.export.export(jax.jit(example))(*kinds)
    path = tmp_path / {"text": "m.mlir", "exported": "m.jax"}.get(form, "m.mlirbc")
    if form == "text":
        path.write_text(exported.mlir_module())
    elif form == "bytecode":
        lowered = jax.jit(example).lower(*kinds).compiler_ir("stablehlo")
        with path.open("wb") as file:
            lowered.operation.write_bytecode(file)
    else:
        data = exported.serialize() if form == "exported" else exported.mlir_module_serialized
        path.write_bytes(data)
    graph = program(path)
    assert graph.main.outputs == ["rows", "shares", "total"]
    assert graph.main.inputs == ["x", "table"]
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(kind.shape).astype(np.float32) for kind in kinds]
    agree(graph, arrays, list(example(*arrays).values()))


def test_unknown_sizes_are_set(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(
        "func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n"
        "  %y = stablehlo.add %x, %x : tensor<?x3xf32>\n  return %y : tensor<?x3xf32>\n}\n"
    )
    graph = program(tmp_path / "m.mlir", input_shapes={"arg0": (2, 3)})
    agree(graph, [np.ones((2, 3), np.float32)], [np.full((2, 3), 2.0)])
    with pytest.raises(TosaConvertError) as caught:
        program(tmp_path / "m.mlir")
    (found,) = caught.value.findings
    assert found.message == "sizes of its arguments are not fixed: arg0 is tensor<?x3xf32>"
    assert found.hint == "set them, with your numbers: --input-shape arg0=1x3"
    with pytest.raises(TosaConvertError, match="unknown-argument"):
        program(tmp_path / "m.mlir", input_shapes={"y": (2, 3)})


def test_unknown_sizes_of_an_exported_function_are_set(tmp_path: Path) -> None:
    """JAX writes @main around the function: it asserts what the sizes are, and calls it."""
    kind = jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 4"), jnp.float32)

    def function(x: Any) -> Any:
        return jax.nn.softmax(x) @ x.T

    exported = jax.export.export(jax.jit(function))(kind)
    (tmp_path / "m.jax").write_bytes(exported.serialize())
    graph = program(tmp_path / "m.jax", input_shapes={"arg0": (3, 4)})
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    agree(graph, [x], [function(x)])
    with pytest.raises(TosaConvertError, match="unsupported-shape"):
        program(tmp_path / "m.jax", input_shapes={"arg0": (3, 5)})


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            {},
            "arguments are not fixed: arg0 is (b, 4), arg2 is (b, 2*n)",
            "set them, with your numbers: --input-shape arg0=1x4 --input-shape arg2=1x1",
        ),
        (
            {"arg0": (2, 4)},
            "arguments are not fixed: arg0 is (b, 4), arg2 is (b, 2*n)",
            "set them, with your numbers: --input-shape arg2=1x1",
        ),
        (
            {"arg0": (2, 4), "arg2": (3, 6)},
            "shapes stay unknown: ",
            "set sizes that fit with --input-shape: arg0 is (b, 4), arg2 is (b, 2*n)",
        ),
    ],
)
def test_sizes_that_are_not_set_are_told_with_their_symbols(
    given: dict[str, tuple[int, ...]], message: str, hint: str, tmp_path: Path
) -> None:
    scope = jax.export.SymbolicScope()
    x, y = (
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(text, scope=scope), jnp.float32)
        for text in ("b, 4", "b, 2*n")
    )
    function = jax.jit(lambda x, bias, y: (x + bias).sum(1, keepdims=True) + y)
    exported = jax.export.export(function)(x, jnp.ones(4), y)
    (tmp_path / "m.jax").write_bytes(exported.serialize())
    with pytest.raises(TosaConvertError) as caught:
        program(tmp_path / "m.jax", input_shapes=given)
    (found,) = caught.value.findings
    assert message in found.message
    assert found.hint == hint


def test_integers_of_64_bits_are_arguments_and_results(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(
        "func.func @main(%x: tensor<3xi64>, %i: tensor<i64>) -> tensor<1xi64> {\n"
        "  %y = stablehlo.add %x, %x : tensor<3xi64>\n"
        "  %r = stablehlo.dynamic_slice %y, %i, sizes = [1] : "
        "(tensor<3xi64>, tensor<i64>) -> tensor<1xi64>\n  return %r : tensor<1xi64>\n}\n"
    )
    graph = program(tmp_path / "m.mlir")
    x = np.array([1, 2**40, -3])
    agree(graph, [x, np.array(1)], [[2**41]])


@pytest.mark.parametrize("kind", ["i64", "ui64"])
def test_positions_beyond_32_bits_are_outside_of_an_array(tmp_path: Path, kind: str) -> None:
    body = (
        '  %g = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        "slice_sizes = array<i64: 1, 1>}}> : (tensor<4x1xf32>, tensor<3x1x{0}>) -> tensor<3x1xf32>\n"
        '  %s = "stablehlo.scatter"(%x, %i, %g) <{{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1>}}> ({{\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    stablehlo.return %b : tensor<f32>\n"
        "  }}) : (tensor<4x1xf32>, tensor<3x1x{0}>, tensor<3x1xf32>) -> tensor<4x1xf32>\n"
    )
    (tmp_path / "m.mlir").write_text(
        f"func.func @main(%x: tensor<4x1xf32>, %i: tensor<3x1x{kind}>) -> "
        f"(tensor<3x1xf32>, tensor<4x1xf32>) {{\n{body.format(kind)}"
        "  return %g, %s : tensor<3x1xf32>, tensor<4x1xf32>\n}\n"
    )
    graph = lowered_here(tmp_path / "m.mlir")
    x = np.array([[1], [2], [3], [4]], np.float32)
    i = np.array([[2**32 + 1], [-(2**32) + 1], [2]])
    # As an unsigned number the second is beyond the array, too.
    second = 1 if kind == "i64" else 4
    agree(graph, [x, i], [[[4], [second], [3]], x])


def test_a_function_is_chosen(tmp_path: Path) -> None:
    text = "\n".join(
        f"func.func @{name}(%x: tensor<3xf32>) -> tensor<3xf32> {{\n"
        f"  %y = stablehlo.{name} %x : tensor<3xf32>\n  return %y : tensor<3xf32>\n}}"
        for name in ("negate", "abs")
    )
    (tmp_path / "m.mlir").write_text(text)
    x = np.array([-1, 2, -3], np.float32)
    agree(program(tmp_path / "m.mlir", func="abs"), [x], [np.abs(x)])
    with pytest.raises(TosaConvertError, match="ambiguous-function"):
        program(tmp_path / "m.mlir")
    with pytest.raises(TosaConvertError, match="unknown-function"):
        program(tmp_path / "m.mlir", func="sqrt")


def test_the_function_that_was_chosen_is_checked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mlir").write_text(
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %y = stablehlo.negate %x : tensor<?xf32>\n  return %y : tensor<?xf32>\n}\n"
        "func.func @other(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %y = call @main(%x) : (tensor<?xf32>) -> tensor<?xf32>\n"
        "  %z = stablehlo.exponential %y : tensor<?xf32>\n  return %z : tensor<?xf32>\n}\n"
    )
    line = ["convert", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.tosa"), "--func", "other"]
    assert run(tosa_flatbuffer, [*line, "--input-shape", "arg0=3", "--check"]) == 0
    assert "compared with StableHLO's interpreter" in capfd.readouterr().out
    agree(tc.load(tmp_path / "m.tosa"), [np.ones(3, np.float32)], [np.full(3, np.exp(-1))])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fft", "compared with XLA, not with StableHLO's interpreter: Semantics mismatch"),
        ("is_finite", "compared with StableHLO's interpreter, which is in jaxlib"),
    ],
)
def test_the_check_says_who_judged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    (tmp_path / "m.mlir").write_text(CASES[name][0].text())
    line = ["convert", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(tosa_flatbuffer, line) == 0
    assert f"note: {said}" in capfd.readouterr().out


def test_a_large_module_is_left_to_xla(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kind = "tensor<512x512xf32>"
    (tmp_path / "m.mlir").write_text(
        f"func.func @main(%x: {kind}) -> {kind} {{\n  %y = stablehlo.dot_general %x, %x, "
        f"contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}\n  return %y : {kind}\n}}\n"
    )
    line = ["convert", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(tosa_flatbuffer, line) == 0
    assert "too large for it, about 3e+08 steps" in capfd.readouterr().out


def test_a_damaged_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        "  %y = stablehlo.add %x, %z : tensor<3xf32>\n  return %y : tensor<3xf32>\n}\n"
    )
    with pytest.raises(TosaConvertError, match="malformed-mlir"):
        program(tmp_path / "m.mlir")


def test_the_tool_converts_a_module_and_other_verbs_say_what_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(CASES["tanh"][0].text())
    assert run(tosa_flatbuffer, ["convert", str(path), "-o", str(tmp_path / "m.tosa")]) == 0
    assert tc.validate(tc.load(tmp_path / "m.tosa")) == []
    assert run(tosa_flatbuffer, ["validate", str(path)]) != 0
    assert "a module of StableHLO" in capfd.readouterr().out


def stateless(function: Any) -> tuple[Any, list[Any]]:
    """Return a function of the state and the inputs, and its first state.

    It returns its results and then the new state, as `jax.export` wants a module of nnx.
    """
    from flax import nnx

    if not isinstance(function, nnx.Module):
        return function, []
    definition, weights, state = nnx.split(function, nnx.Param, ...)
    leaves, tree = jax.tree.flatten(state)

    def step(*arguments: Any) -> Any:
        own = jax.tree.unflatten(tree, arguments[: len(leaves)])
        module = nnx.merge(definition, weights, own)
        result = module(*arguments[len(leaves) :])
        return result, *jax.tree.leaves(nnx.split(module, nnx.Param, ...)[2])

    return step, leaves


@pytest.mark.slow
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for _, name, make in networks(JAX)])
def test_a_network_of_the_zoo_agrees_by_way_of_export(tmp_path: Path, make: Any) -> None:
    """It returns what JAX and the program of the direct route return: a module of nnx in three calls."""
    module, inputs = make()
    direct = tc.frontends.from_jax(module, inputs)
    function, state = stateless(module)
    arguments = [*state, *jax.tree.leaves(inputs)]
    kinds = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments]
    flat = jax.tree.structure(inputs)

    def of_leaves(*leaves: Any) -> Any:
        return function(*leaves[: len(state)], *jax.tree.unflatten(flat, leaves[len(state) :]))

    compiled = jax.jit(of_leaves, keep_unused=True)
    exported = jax.export.export(compiled)(*kinds)
    (tmp_path / "m.mlirbc").write_bytes(exported.mlir_module_serialized)
    graph = lowered_here(tmp_path / "m.mlirbc")
    variables: Any = {}
    for _ in range(3 if state else 1):
        expected = [np.asarray(value) for value in jax.tree.leaves(compiled(*arguments))]
        found = run_numpy(graph, arguments)
        same = tc.golden.run(
            direct,
            dict(zip(direct.main.inputs, arguments[len(state) :], strict=True)),
            engine="numpy",
            variables=variables,
        )
        variables = dict(same.variables)
        count = len(same.outputs)
        assert len(found) == len(expected) == count + len(state)
        for made, want in zip(found, expected, strict=True):
            close(made, want)
        for made, want in zip(found[:count], same.outputs.values(), strict=True):
            close(made, want)
        arguments[: len(state)] = found[count:]


def run_numpy(graph: tc.Graph, arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
    """Return the outputs of a program in order."""
    inputs = dict(zip(graph.main.inputs, arrays, strict=True))
    found = tc.golden.run(graph, inputs, engine="numpy").outputs
    return [found[name] for name in graph.main.outputs]


def close(made: npt.NDArray[Any], want: Any) -> None:
    """Assert that an output of a network is near what is expected."""
    scale = 1e-4 * max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=scale)
