"""Modules as users bring them: what torch.export takes, and what is said of the rest."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from tosa_convert.frontends.torch.convert import lower_directly  # noqa: E402
from tosa_convert.frontends.torch.refusals import NotLoweredError  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

NETS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
    def forward(self, x):
        return self.linear(x)

def module_alone():
    return Net().eval()

def without_a_seed():
    return Net().eval(), torch.ones(2, 4)

def padded():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = torch.tensor([[False, False, True]])
    return torch.nn.TransformerEncoder(layer, 1).eval(), (torch.ones(1, 3, 8),), {
        "src_key_padding_mask": mask
    }
"""


class Pair(NamedTuple):
    scores: Any
    rest: Any


@dataclass
class Answer:
    scores: Any


class Returns(torch.nn.Module):
    """Returns what a function makes of its input."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize("member", ["without_a_seed", "padded"])
def test_the_check_compares_the_model_that_was_converted(
    member: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights that no seed decides; and an encoder, whose fast path makes zeros of the padding."""
    (tmp_path / "nets.py").write_text(NETS)
    words = [f"{tmp_path / 'nets.py'}:{member}", "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), words) == 0
    assert capsys.readouterr().out.startswith("ok   ")


def test_a_tensor_that_is_not_in_a_tuple_is_the_argument() -> None:
    graph = tc.frontends.from_torch(torch.nn.ReLU(), torch.ones(1, 4))
    assert graph.main.tensors["input"].shape == (1, 4)


def test_a_factory_that_forgets_the_arguments_is_told_what_to_return(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    with pytest.raises(tc.TosaConvertError, match=r"return module.eval\(\), \(torch.zeros"):
        tc.frontends.from_file(f"{tmp_path / 'nets.py'}:module_alone")


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_dropout_between_the_layers_of_a_recurrent_module_is_refused(kind: str) -> None:
    module = getattr(torch.nn, kind)(4, 5, 2, dropout=0.3)
    with pytest.raises(tc.TosaConvertError, match="draws random numbers") as caught:
        tc.frontends.from_torch(module.train(), (torch.ones(3, 1, 4),))
    assert "export in evaluation mode" in str(caught.value)


def test_a_named_tuple_converts_and_a_class_that_torch_does_not_know_is_named() -> None:
    graph = tc.frontends.from_torch(Returns(lambda x: Pair(x * 2, x + 1)), (torch.ones(2),))
    assert graph.main.outputs == ["mul", "add"]
    with pytest.raises(tc.TosaConvertError, match="register_dataclass") as caught:
        tc.frontends.from_torch(Returns(lambda x: Answer(x * 2)), (torch.ones(2),))
    assert caught.value.code == "frontend-failed"


def test_what_a_module_raises_has_the_line_of_the_user() -> None:
    with pytest.raises(tc.TosaConvertError, match=r"test_torch_export.py:\d+") as caught:
        tc.frontends.from_torch(Returns(lambda x: x @ x), (torch.ones(2, 3),))
    assert caught.value.code == "frontend-failed"
    assert "torch.export does not export it: RuntimeError" in str(caught.value)


def _masked(x: Any) -> Any:
    x = x.clone()
    x[x > 0] *= 2
    return x


def _sized(x: Any) -> Any:
    return torch.zeros(max(x[x > 0].shape[0], 3))


def _compared(x: Any) -> Any:
    return x + 1 if (x > 0).any() else x


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_compared, "torch.export cannot follow what depends on the data"),
        (_masked, "aten.index.Tensor has no lowering to TOSA: the size of its result"),
        (_sized, "aten.index.Tensor has no lowering to TOSA: the size of its result"),
    ],
)
def test_what_depends_on_the_data_is_refused_by_name_and_line(function: Any, text: str) -> None:
    with pytest.raises(tc.TosaConvertError, match=text) as caught:
        tc.frontends.from_torch(Returns(function), [torch.randn(6)])
    assert caught.value.code == "not-lowered"
    assert "test_torch_export.py:" in caught.value.findings[0].where


def _windows(x: Any) -> Any:
    x = x.clone()
    x.unfold(0, 3, 1)[:, 0] = 1
    return x


def _spread(x: Any) -> Any:
    y = x.clone()
    y.unsqueeze(0).expand(1, -1)[0].fill_(0.1)
    return y


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (
            lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 1, 1, 1]), 0),
            [
                "repeat_interleave.self_Tensor has no lowering to TOSA: the size of its result depends"
            ],
        ),
        (torch.func.grad(lambda x: x.sin().sum()), ["torch.export loses what a transformation"]),
        (_windows, ["torch does not decompose it: RuntimeError: While executing unfold"]),
        (_spread, ["aten.fill_.Scalar has no lowering to TOSA: it writes into an expanded view"]),
        (lambda x: x[:0], ["output slice_1 has no lowering to TOSA: TOSA does not have empty"]),
        (
            lambda x: torch._higher_order_ops.map(lambda one: one * 2, x),
            ["map_impl has no lowering"],
        ),
        (
            lambda x: torch.nonzero_static(x > 0, size=2),
            ["aten.nonzero_static has no lowering to TOSA: TOSA does not find where elements are"],
        ),
        (
            lambda x: (x.double() * 3).float(),
            ["_to_copy has no lowering.*float64", "aten.mul.Tensor"],
        ),
        (
            lambda x: (lambda y: y @ y)(x.int().repeat(60).expand(360, 360)),
            ["MATMUL does not take int32"],
        ),
    ],
)
def test_what_does_not_lower_is_named_once_and_in_words_of_torch(
    function: Any, texts: list[str]
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_torch(Returns(function), [torch.randn(6)])
    found = caught.value.findings
    for text, row in zip(texts, found, strict=True):
        assert re.search(text, row.message), row
        assert not re.search("repaired.mlir|preferred_element_type", str(row.hint))
        assert "float64" not in row.message or "--narrow f64" in str(row.hint)


@pytest.mark.parametrize("partial", [False, True])
def test_sizes_that_depend_on_the_data_are_refused_and_not_cut_out(partial: bool) -> None:
    program = torch.export.export(Returns(lambda x: (x + 1).nonzero()), (torch.ones(3),))
    with pytest.raises(NotLoweredError, match=r"nonzero.*depends on the data"):
        lower_directly(program, (), partial=partial)


def test_a_conjugate_buffer_stays_conjugate() -> None:
    class Turned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turn", torch.tensor([1 + 2j, 3 - 1j]).conj())
            self.register_buffer("part", torch.tensor([1 + 2j, 3 - 1j]).conj().imag)

        def forward(self, x: Any) -> Any:
            return x * self.turn.imag + self.part

    graph = tc.frontends.from_torch(Turned().eval(), [torch.ones(2)])
    (found,) = tc.run(graph, {"x": torch.ones(2).numpy()}).outputs.values()
    assert found.tolist() == [-4.0, 2.0]


def test_an_operator_in_a_library_has_the_line_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "site-packages" / "library.py"
    file.parent.mkdir()
    file.write_text(
        "import torch\n\n\nclass Layer(torch.nn.Module):\n"
        "    def forward(self, x):\n        return torch.special.i0(x)\n"
    )
    layer = runpy.run_path(str(file))["Layer"]()
    for module, expected in (
        (torch.nn.Sequential(layer), "library.py:6"),
        (Returns(layer), "test_torch_export.py:"),
    ):
        with pytest.raises(tc.TosaConvertError, match="i0 has no lowering") as caught:
            tc.frontends.from_torch(module, [torch.randn(6)])
        assert expected in caught.value.findings[0].where


def test_indices_that_may_be_equal_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def function(x: Any, i: Any, rows: Any) -> Any:
        x = x.clone()
        x[i] = rows
        x[torch.tensor([1, 0])] = rows
        x[torch.arange(2) + 1] = rows
        return x.index_copy(0, i[:1], rows[:1])

    class Puts(torch.nn.Module):
        def forward(self, x: Any, i: Any, rows: Any) -> Any:
            return function(x, i, rows)

    arguments = [torch.randn(6, 2), torch.tensor([1, 2]), torch.randn(2, 2)]
    tc.frontends.from_torch(Puts(), arguments, narrow="i64")
    texts = [row.getMessage() for row in caplog.records]
    (put,) = [text for text in texts if text.startswith("rows are put at indices")]
    assert put.count("index_put") == 1


def test_a_program_that_torch_does_not_write_names_its_operators() -> None:
    from tosa_convert.frontends.torch.export import _no_file_form

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice = torch.library.custom_op("own_of_test::twice", doubled, mutates_args=())
    twice.register_fake(torch.empty_like)
    program = torch.export.export(Returns(lambda x: twice(x)), (torch.ones(2),))
    error = _no_file_form(program, "Returns")
    assert error.code == "not-lowered"
    assert "own_of_test.twice" in str(error)
