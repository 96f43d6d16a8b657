"""What a program of a JAX function is called, where it comes from, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import jax, lowered

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.jax.table import CALLS, REFUSED, ROWS

jnp, lax = jax.numpy, jax.lax
X = np.ones((2, 3), np.float32)
FACTORY = """
import jax
import jax.numpy as jnp
import numpy as np


def factory():
    weight = np.ones((3, 4), np.float32)

    def layer(image, scale):
        with jax.named_scope("dense"):
            hidden = image @ weight
        return {"logits": jnp.tanh(hidden) * scale, "size": hidden}

    return layer, (np.ones((2, 3), np.float32),), {"scale": np.float32(2)}


def refused():
    return (lambda x: (jnp.linalg.qr(x)[1], jax.scipy.special.gammaln(x))), (np.eye(4),)


def raising():
    return (lambda x: x if x.sum() > 0 else -x), (np.ones(4, np.float32),)


def steered():
    return jax.jit(lambda x, n: x * n, static_argnums=1), (np.ones(4, np.float32), 2)


def exported():
    return jax.jit(jnp.tanh).lower(np.ones(4, np.float32)), (np.ones(4, np.float32),)


def wrong():
    return 7
"""


def test_keyword_arguments_have_their_own_names() -> None:
    function = lambda *, width, area: width - area  # noqa: E731
    kwargs = {"width": np.zeros(2, np.float32), "area": np.zeros((3, 2), np.float32)}
    graph = tc.frontends.from_jax(function, (), kwargs)
    shapes = {name: graph.main.tensors[name].shape for name in graph.main.inputs}
    assert shapes == {"area": (3, 2), "width": (2,)}


@pytest.mark.parametrize("size", [4, 1024])
def test_a_program_keeps_the_numbers_that_an_array_had(size: int) -> None:
    weights, x = np.ones((size, size), np.float32), np.ones((1, size), np.float32)
    graph = tc.frontends.from_jax(lambda x: x @ weights.T, (x,))
    weights[:] = 0
    (found,) = tc.golden.run(graph, {"x": x}, engine="numpy").outputs.values()
    assert (found == size).all()


def test_no_primitive_has_two_rows() -> None:
    assert not ROWS.keys() & (REFUSED.keys() | CALLS)
    assert not REFUSED.keys() & CALLS


def test_arguments_have_the_names_of_parameters_and_paths_of_trees() -> None:
    def function(params: Any, image: Any, *rest: Any) -> Any:
        return params["dense"]["kernel"] + image + rest[0] + rest[1] + params["bias"][0]

    tree = {"dense": {"kernel": X}, "bias": [X]}
    graph = lowered(function, tree, X, X, X)
    assert graph.main.inputs == [
        "params.bias.0",
        "params.dense.kernel",
        "image",
        "rest_0",
        "rest_1",
    ]
    graph = lowered(function, tree, X, X, X, names=("p", "i", "a", "b"))
    assert graph.main.inputs == ["p.bias.0", "p.dense.kernel", "i", "a", "b"]


def test_arguments_of_a_wrapper_are_numbered() -> None:
    def wrapper(image: Any, *args: Any, **kwargs: Any) -> Any:
        return image + args[0] + args[1]

    assert lowered(wrapper, X, X, X).main.inputs == ["image", "args_0", "args_1"]
    assert lowered(lambda *args, **kwargs: args[0] * 2, X).main.inputs == ["args_0"]


def test_what_is_no_array_becomes_part_of_the_program() -> None:
    def function(layer: Any, word: str, x: Any) -> Any:
        return layer["activation"](x @ layer["kernel"]) * len(word), layer

    layer = {"activation": jnp.tanh, "kernel": np.ones((3, 1), np.float32), "mask": None}
    graph = lowered(function, layer, "four", X)
    assert graph.main.inputs == ["layer.kernel", "x"]
    assert graph.main.outputs == ["output_0", "output_1.kernel"]
    found = tc.run(graph, {"layer.kernel": layer["kernel"], "x": X}, engine="numpy").outputs
    want = function(layer, "four", X)[0]
    np.testing.assert_allclose(found["output_0"], want, atol=1e-5)


def test_an_unused_key_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """As that of a dropout in inference. A key that is used is refused."""

    def function(key: Any, x: Any, rate: float) -> Any:
        return x * 2 if rate == 0 else x * jax.random.bernoulli(key, rate, x.shape)

    key = jax.random.key(0)
    graph = lowered(jax.jit(lambda key, x: function(key, x, 0)), key, X)
    assert graph.main.inputs == ["x"]
    assert "the key key is left out" in caplog.text
    with pytest.raises(tc.TosaConvertError, match=r"argument key .* key<fry>"):
        tc.frontends.from_jax(lambda key, x: function(key, x, 0.5), (key, X))
    branches = (lambda key: 1.0), (lambda key: 2.0)
    with pytest.raises(tc.TosaConvertError, match="it depends on a key") as caught:
        tc.frontends.from_jax(lambda key, x: lax.cond(x.sum() > 0, *branches, key), (key, X))
    assert caught.value.code == "not-lowered"


def test_a_symbolic_size_is_refused_with_the_option_that_sets_it() -> None:
    (batch,) = jax.export.symbolic_shape("batch")
    with pytest.raises(tc.TosaConvertError, match=r"example argument x .*batch") as caught:
        tc.frontends.from_jax(jnp.tanh, (jax.ShapeDtypeStruct((batch, 3), np.float32),))
    assert "--input-shape x=1x3" in caught.value.findings[0].hint


def test_a_callback_of_constants_is_not_called() -> None:
    """It may raise, as a check in a branch that is not taken."""

    def fail(*_: Any) -> Any:
        raise AssertionError

    def checked(x: Any) -> Any:
        wrong = lambda: jax.pure_callback(fail, np.float32(0), np.float32(1))  # noqa: E731
        return x + lax.cond(x.sum() > 1e9, wrong, lambda: np.float32(0))

    with pytest.raises(tc.TosaConvertError, match="pure_callback has no lowering") as caught:
        tc.frontends.from_jax(checked, (X,))
    assert caught.value.code == "not-lowered"


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x * 2, ["output"]),
        (lambda x: (x * 2, x + 1), ["output_0", "output_1"]),
        (lambda x: {"b": x * 2, "a": [x + 1, x + 3]}, ["a.0", "a.1", "b"]),
        (lambda x: {"x": x * 2}, ["x_1"]),
        (lambda x: {"mul": x + 2, "add": x * 2}, ["add", "mul"]),
    ],
)
def test_results_have_the_names_of_their_keys(function: Any, names: list[str]) -> None:
    assert lowered(function, X).main.outputs == names


def test_operators_have_their_lines_and_scopes() -> None:
    def function(x: Any) -> Any:
        with jax.named_scope("outer"):
            return jax.nn.silu(x)  # the line that is expected

    line = function.__code__.co_firstlineno + 2
    locations = {row.location for row in lowered(function, X).main.operators}
    assert f'loc("outer/logistic"("{Path(__file__).name}":{line}:0))' in locations
    full = lowered(function, X, full_paths=True).main.operators[0].location
    assert f'"{__file__}":{line}:0' in full


def test_only_types_and_shapes_of_arguments_matter() -> None:
    shape = jax.ShapeDtypeStruct((2, 3), np.float32)
    graph = tc.frontends.from_jax(lambda x, y: x + y, [shape], {"y": shape})
    assert graph.main.inputs == ["x", "y"]


def test_weights_of_jax_are_not_copied() -> None:
    weight = jnp.ones((300, 300))
    graph = lowered(lambda x: x @ weight + x @ weight, np.ones((2, 300), np.float32))
    constants = [row for row in graph.main.tensors.values() if row.data is not None and row.shape]
    large = [row.data for row in constants if row.element_count() == 300 * 300]
    assert len(large) == 1
    assert large[0] is not None
    assert np.shares_memory(large[0].numpy(), np.asarray(weight))


def test_constants_are_not_repeated() -> None:
    graph = lowered(
        lambda x: x + jnp.zeros((500, 500)) + jnp.ones((500, 1)), np.ones((500, 500), "f")
    )
    assert sum(row.data.nbytes for row in graph.main.tensors.values() if row.data) < 5000


def test_an_array_without_elements_inside_is_a_constant() -> None:
    graph = lowered(lambda x: jnp.concatenate([x[:0], x, x[:0] * 2]).sum(0), X)
    assert {row.spec.name for row in graph.main.operators} == {
        "REDUCE_SUM",
        "RESHAPE",
        "CONST_SHAPE",
    }


def test_what_no_result_needs_is_not_lowered() -> None:
    def function(x: Any) -> Any:
        jax.scipy.special.gammaln(x)
        return x + 1

    assert len(lowered(function, X).main.operators) == 2


def test_everything_that_does_not_lower_is_listed_at_once() -> None:
    def function(x: Any, key: Any) -> Any:
        a = jax.scipy.special.gammaln(x) + jax.scipy.special.gammaln(x + 1)
        b = jnp.linalg.eigh(x @ x.T)[0]
        return a, b, jax.random.normal(key, (3,)), jnp.linalg.svd(x)[1], jnp.tanh(x)

    first = function.__code__.co_firstlineno
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_jax(function, (X, jax.random.PRNGKey(0)))
    findings = caught.value.findings
    assert {row.code for row in findings} == {"not-lowered"}
    messages = {row.message.partition(" ")[0]: row for row in findings}
    assert {"lgamma", "eigh", "svd"} <= messages.keys()
    assert {"random_wrap", "random_bits"} & messages.keys()
    assert "2 times" in messages["lgamma"].message
    assert f"{__file__}:{first + 1}" in messages["lgamma"].where
    assert "as an argument" in messages["eigh"].hint


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (
            lambda x: lax.map(lambda r: jax.scipy.special.gammaln(r), x),
            (np.ones((900, 3), "f"),),
            "lgamma",
        ),
        (lambda x: x + 1j, (X,), "complex64"),
        (lambda x: jnp.sort(x), (np.ones(4000, np.float32),), "pairs"),
        (lambda x: jnp.zeros((0, 3)) + x[:0], (X,), "empty"),
        (lambda x: x * 2, (np.ones(3, np.complex64),), "complex64"),
        (lambda x, k: jax.random.uniform(k), (X, jax.random.key(0)), "key<fry>"),
        (lambda x: jax.pure_callback(np.sin, x, x), (X,), "Python"),
    ],
)
def test_what_tosa_does_not_have_is_refused_by_name(function: Any, args: Any, words: str) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_jax(function, args)
    assert caught.value.code == "not-lowered"
    assert words in str(caught.value)
    assert all(row.hint for row in caught.value.findings)


def test_a_wrong_number_of_names_is_refused() -> None:
    with pytest.raises(tc.TosaConvertError, match="2 names for 1 argument"):
        tc.frontends.from_jax(lambda x: x, (X,), names=("a", "b"))


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(FACTORY, encoding="utf-8")
    return path


def test_a_factory_is_converted_by_the_command(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "net.tosa"
    assert run(verb("convert"), [f"{source}:factory", "-o", str(target)]) == 0
    graph = tc.load(target)
    assert graph.main.inputs == ["image", "scale"]
    assert graph.main.outputs == ["logits", "size"]
    locations = {operator.location for operator in graph.main.operators}
    assert 'loc("dense/dot_general"("net.py":12:0))' in locations


def test_the_command_and_the_function_make_the_same_program(source: Path) -> None:
    graph = tc.frontends.from_file(f"{source}:factory")
    space: dict[str, Any] = {}
    exec(compile(FACTORY, str(source), "exec"), space)  # as a user's own module
    function, args, kwargs = space["factory"]()
    other = tc.frontends.from_jax(function, args, kwargs)
    assert tc.compare(graph, other, names=True, locations=True) is None


def test_an_argument_gets_another_shape(source: Path) -> None:
    graph = tc.frontends.from_file(f"{source}:factory", input_shapes={"image": (7, 3)})
    assert graph.main.tensors["logits"].shape == (7, 4)
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(f"{source}:factory", input_shapes={"picture": (7, 3)})
    assert caught.value.code == "unknown-argument"


@pytest.mark.parametrize(
    ("member", "code", "words"),
    [
        ("refused", "not-lowered", ("net.py:19", "lgamma", "qr")),
        ("raising", "frontend-failed", ("net.py:23", "TracerBoolConversionError", "partial")),
        ("steered", "frontend-failed", ("Non-hashable static", "functools.partial")),
        ("exported", "frontend-failed", ("a Lowered in place of the function",)),
        ("wrong", "frontend-failed", ("(function, args)", "int")),
        ("missing", "frontend-failed", ("factory, refused, raising, steered, exported, wrong",)),
    ],
)
def test_what_is_wrong_with_a_factory_is_said(
    source: Path, member: str, code: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(f"{source}:{member}")
    assert caught.value.code == code
    text = str(caught.value)
    assert [word for word in words if word not in text] == []
    assert "Traceback" not in text
    assert "modules.py" not in text


def test_another_python_lowers_it(source: Path) -> None:
    graph = tc.frontends.from_file(f"{source}:factory", python=sys.executable)
    assert graph.main.outputs == ["logits", "size"]
