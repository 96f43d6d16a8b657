"""Torch programs: names, states, sizes, and what does not lower."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.cli.main import verb

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed",
    ),
    pytest.mark.filterwarnings("ignore"),
]

SOURCE = '''
import torch

class Counter(torch.nn.Module):
    """Counts its calls, and adds what it was given to a sum."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(3))
        self.register_buffer("total", torch.ones(2, 3), persistent=False)

    def forward(self, batch, scale=2.0, *, mask=None):
        y = self.linear(batch["a"][0]) * scale + self.total
        self.calls.add_(1)
        self.total.add_(y)
        return {"logits": y, "others": [self.calls + 1, (mask, y * mask)]}

def counter():
    torch.manual_seed(0)
    return Counter(), ({"a": [torch.ones(2, 4)]},), {"mask": torch.arange(3.0)}

class Softmax(torch.nn.Module):
    def forward(self, x, y):
        return torch.softmax(x.reshape(x.shape[0], -1), 1) + y

def dynamic():
    rows = torch.export.Dim("rows")
    shapes = ({0: rows}, {0: rows})
    given = torch.ones(3, 4), torch.ones(3, 4)
    return torch.export.export(Softmax(), given, dynamic_shapes=shapes)

class Unlowered(torch.nn.Module):
    def forward(self, x):
        x = torch.special.i0(x)
        return torch.special.i0(x) + torch.nn.functional.dropout(x)

def unlowered():
    return Unlowered(), (torch.ones(4, 3, 3),)

class Branch(torch.nn.Module):
    def forward(self, x):
        return x + 1 if (x > 0).any() else x - 1

def branch():
    return Branch(), (torch.ones(4),)

class Generator(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand(4, generator=torch.Generator().manual_seed(0))

def generator():
    return Generator(), (torch.ones(4),)

class Bits(torch.nn.Module):
    def forward(self, x):
        return x.float() / 2, x.argmax()

def unsigned():
    return Bits(), (torch.ones(4, dtype=torch.uint8),)

class Writes(torch.nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1

def writes():
    return Writes(), (torch.ones(4),)

class Normalized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(2)

    def forward(self, x):
        return self.norm(x)

def training():
    return Normalized(), (torch.ones(2, 2, 3, 3),)

def inference():
    return Normalized().eval(), (torch.ones(2, 2, 3, 3),)

class Tokens(torch.nn.Module):
    def forward(self, tokens):
        return tokens.float() / 2

def tokens():
    return Tokens(), (torch.arange(4),)

class Compares(torch.nn.Module):
    def forward(self, x, unsigned):
        compared = torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge
        all_types = x, x.half(), x.int(), unsigned
        return [f(one, number) for f in compared for one in all_types for number in (0.1, 200)] + [
            torch.isinf(x), torch.softmax(x.masked_fill(x == float("-inf"), 0.5), 0)
        ]

def compares():
    return Compares(), (
        torch.tensor([0.1, -0.1, 0, float("-inf")]), torch.tensor([0, 1, 200, 255], dtype=torch.uint8)
    )

number = 3
'''


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def lowered(source: Path, member: str, **options: Any) -> tc.Graph:
    return tc.frontends.from_file(f"{source}:{member}", **options)


def loaded(source: Path, member: str) -> Any:
    """Return the factory's module and arguments, in this process."""
    spec = importlib.util.spec_from_file_location("models", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, member)()


def test_comparisons_with_numbers_are_in_the_type_of_torch(source: Path) -> None:
    graph = lowered(source, "compares")
    module, arguments = loaded(source, "compares")
    x, unsigned = (one.numpy() for one in arguments)
    found = tc.run(graph, {"x": x, "unsigned": unsigned.view(np.int8)}).outputs.values()
    expected = module(*arguments)
    assert [[*one] for one in [*found][:-1]] == [one.tolist() for one in expected[:-1]]
    np.testing.assert_allclose([*found][-1], expected[-1], rtol=1e-6)


def test_normalisations_are_those_of_torch_for_small_numbers_too() -> None:
    """Where no number is given that keeps a division from one by 0, torch has one."""
    import torch

    torch.manual_seed(0)
    group = torch.nn.GroupNorm(2, 4)
    torch.nn.init.normal_(group.weight)
    torch.nn.init.normal_(group.bias)
    module = torch.nn.Sequential(torch.nn.RMSNorm(6), group, torch.nn.RMSNorm([6, 6])).eval()
    x = torch.randn(2, 4, 6, 6) * 1e-4
    x[0, 0, 0] = 0
    graph = tc.frontends.from_torch(module, (x,))
    (found,) = tc.run(graph, {"input": x.numpy()}).outputs.values()
    np.testing.assert_allclose(found, module(x).detach(), rtol=1e-4, atol=1e-6)
    assert _kinds(graph)["GATHER"] == 0


@pytest.mark.usefixtures("refmodel")
def test_a_model_of_64_bits_is_checked_as_it_is_and_in_32_bits(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = [f"{source}:tokens", "-o", str(tmp_path / "m.tosa"), "--check"]
    wide = CliRunner().invoke(verb("convert"), words)
    assert wide.exit_code == 0, wide.output
    assert "to compute in 32 bits instead: --narrow i64" in caplog.messages[-1]
    checked = CliRunner().invoke(verb("convert"), [*words, "--narrow", "i64", "--engine", "numpy"])
    assert checked.exit_code == 0, checked.output
    assert "the reference is numpy" in checked.output
    assert "narrowed i64 to i32 in 1 tensor: tokens" in caplog.messages
    without = CliRunner().invoke(verb("convert"), [*words[:3], "--engine", "numpy"])
    assert "--input, --random and --engine are for --check" in without.output


def _kinds(graph: tc.Graph) -> Counter[str]:
    return Counter(operator.spec.name for operator in graph.main.operators)


def test_three_calls_give_what_torch_gives_with_its_states(source: Path) -> None:
    graph = lowered(source, "counter")
    assert graph.main.inputs == ["batch['a'][0]", "mask"]
    assert graph.main.outputs == ["logits", "others[0]", "others[1][0]", "others[1][1]"]
    module, args, kwargs = loaded(source, "counter")
    states: dict[str, Any] = {}
    feed = {"batch['a'][0]": args[0]["a"][0].numpy(), "mask": kwargs["mask"].numpy()}
    for _ in range(3):
        expected = module(*args, **kwargs)
        result = tc.run(graph, feed, variables=states)
        states = result.variables
        first, (second, (third, fourth)) = expected.values()
        for want, got in zip((first, second, third, fourth), result.outputs.values(), strict=True):
            np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5)
    assert states.keys() == {"calls", "total"}
    np.testing.assert_allclose(states["total"], module.total.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["x", "arg0"])
def test_sizes_are_frozen_on_request_and_shared_ones_follow(source: Path, name: str) -> None:
    graph = lowered(source, "dynamic", input_shapes={name: (5, 4)})
    assert graph.main.tensors["y"].shape == (5, 4)


@pytest.mark.parametrize(
    ("shapes", "code"),
    [
        ({"z": (5, 4)}, "unknown-argument"),
        ({"x": (5, 5)}, "option-conflict"),
        ({"x": (5,)}, "option-conflict"),
        ({"x": (5, 4), "y": (6, 4)}, "option-conflict"),
        ({"x": (5, 4), "arg0": (6, 4)}, "option-conflict"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    source: Path, shapes: dict[str, tuple[int, ...]], code: str
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        lowered(source, "dynamic", input_shapes=shapes)
    assert caught.value.findings[0].code == code


@pytest.mark.parametrize(
    ("member", "said"),
    [("branch", "cannot follow what depends on the data"), ("generator", "it is an object")],
)
def test_what_torch_export_cannot_follow_is_refused_by_name(
    source: Path, member: str, said: str
) -> None:
    with pytest.raises(tc.TosaConvertError, match=said) as caught:
        lowered(source, member)
    assert {finding.code for finding in caught.value.findings} == {"not-lowered"}


def test_all_operators_that_do_not_lower_are_named_with_their_lines(source: Path) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        lowered(source, "unlowered")
    text = str(caught.value)
    assert "models.py:" in text
    assert "it draws random numbers" in text
    assert "aten.i0 has no lowering to TOSA, 2 times" in text


def test_unsigned_numbers_are_converted_and_not_taken_for_signed_ones(source: Path) -> None:
    graph = lowered(source, "unsigned")
    x = np.array([0, 127, 128, 255], np.uint8)
    half, place = tc.run(graph, {graph.main.inputs[0]: x.view(np.int8)}).outputs.values()
    assert half.tolist() == [0, 63.5, 64, 127.5]
    assert place == 3


@pytest.mark.parametrize(("member", "count"), [("training", 1), ("inference", 0), ("unlowered", 1)])
def test_training_mode_is_warned_of(
    source: Path, member: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    if member == "unlowered":
        with pytest.raises(tc.TosaConvertError):
            lowered(source, member)
    else:
        lowered(source, member, narrow="i64")
    warnings = [row.getMessage() for row in caplog.records if "training mode" in row.getMessage()]
    assert len(warnings) == count
    assert all("module.eval()" in text for text in warnings)


def test_an_input_that_is_written_to_becomes_an_output(source: Path) -> None:
    graph = lowered(source, "writes")
    assert graph.main.outputs == ["add", "x_changed"]
    found = tc.run(graph, {"x": np.arange(4, dtype=np.float32)}).outputs
    assert found["x_changed"].tolist() == [0, 2, 4, 6]
    assert found["add"].tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize("member", ["number", "absent"])
def test_a_member_that_is_not_a_factory_is_refused(source: Path, member: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="has no function") as caught:
        lowered(source, member)
    assert caught.value.findings[0].code == "frontend-failed"


def test_a_module_in_memory_is_lowered_with_the_names_of_its_arguments() -> None:
    torch = importlib.import_module("torch")
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    graph = tc.frontends.from_torch(module, (torch.zeros(2, 4),))
    assert graph.main.inputs == ["input"]
    assert graph.main.outputs == ["relu"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = tc.run(graph, {"input": x}).outputs["relu"]
    np.testing.assert_allclose(found, module(torch.from_numpy(x)).detach().numpy(), rtol=1e-5)
    assert any("linear.py" in operator.location for operator in graph.main.operators)


def test_what_is_not_a_module_is_refused() -> None:
    with pytest.raises(tc.TosaConvertError, match="expected a torch"):
        tc.frontends.from_torch(3)


def test_exact_keeps_the_normalisation_behind_a_convolution() -> None:
    torch = importlib.import_module("torch")
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)  # Its scales are 1.
    module = torch.nn.Sequential(*layers).eval()
    arguments = [torch.ones(1, 3, 6, 6)]
    for exact, products in ((False, 0), (True, 1)):
        graph = tc.frontends.from_torch(module, arguments, exact=exact)
        kinds = [op.spec.name for op in graph.main.operators]
        assert kinds.count("MUL") == products
        assert kinds.count("CONV2D") == 1


def test_sizes_go_by_the_names_and_within_the_bounds_of_their_dim() -> None:
    import torch

    rows = torch.export.Dim("rows", min=2, max=10)
    given = (torch.ones(3, 4),)
    program = torch.export.export(torch.nn.ReLU(), given, dynamic_shapes=({0: rows},))
    graph = tc.frontends.from_torch(program, input_shapes={"rows": (5,)})
    assert graph.main.tensors["input"].shape == (5, 4)
    with pytest.raises(tc.TosaConvertError, match="takes from 2 to 10, found 11"):
        tc.frontends.from_torch(program, input_shapes={"rows": (11,)})
    with pytest.raises(
        tc.TosaConvertError, match=r"inputs: input; sizes: rows \(size 0 of input\)"
    ):
        tc.frontends.from_torch(program, input_shapes={"columns": (5,)})


def test_a_strided_convolution_of_an_open_batch_runs_once_its_size_is_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cut off what the stride leaves over, in a SLICE of the whole batch."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Conv2d(3, 4, 1, stride=2).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    image = torch.randn(2, 3, 16, 16)
    program = torch.export.export(module, (image,), dynamic_shapes=({0: batch},))
    source = tmp_path / "module.tosa"
    tc.save(tc.frontends.from_torch(program), source)
    (said,) = [row.getMessage() for row in caplog.records if row.name == "tosa_convert"]
    assert "the input input has sizes that are not fixed: batch, 3, 16, 16; " in said
    assert "batch is at least 1 and at most 64" in said
    graph = tc.load(source, input_shapes={"input": (2, 3, 16, 16)})
    assert not tc.validate(graph, spec_version="1.0")
    options = golden.RunOptions(engine="numpy")
    found = golden.run(graph, {"input": image.numpy()}, options=options).outputs
    (array,) = found.values()
    np.testing.assert_allclose(array, module(image).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("written", "said"),
    [("torch.sym_min(n, 50)", "Min(50, "), ("n // 1000", "//1000"), ("n % 32", ", 32)")],
)
def test_a_number_that_is_the_same_for_the_sizes_that_are_tried_is_refused(
    written: str, said: str
) -> None:
    import torch

    class Sum(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            number = eval(written, {"torch": torch, "n": x.shape[1]})
            return x + number

    sizes = {1: torch.export.Dim("n")}
    program = torch.export.export(Sum(), (torch.ones(2, 20),), dynamic_shapes=(sizes,))
    with pytest.raises(tc.TosaConvertError, match="sizes that are not fixed") as caught:
        tc.frontends.from_torch(program)
    assert said in str(caught.value)


def test_a_result_whose_size_depends_on_the_data_is_refused_as_that_alone() -> None:
    import torch

    class Places(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nonzero(x > 0)

    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_torch(Places(), (torch.randn(4, 4),))
    (found,) = caught.value.findings
    assert "aten.nonzero" in found.message
    assert "depends on the data" in f"{found.message} {found.hint}"


def test_a_compiled_module_converts_and_a_scripted_one_is_refused_by_name() -> None:
    import torch

    module = torch.nn.Linear(3, 2).eval()
    given = [torch.ones(1, 3)]
    assert tc.frontends.from_torch(torch.compile(module), given).main.inputs == ["input"]
    for scripted in (torch.jit.script(module), torch.jit.trace(module, given)):
        with pytest.raises(tc.TosaConvertError, match="a module of TorchScript"):
            tc.frontends.from_torch(scripted, given)


class TestChangesThatAnExportLoses:
    @pytest.fixture
    def module(self) -> Any:
        import torch

        class Cache(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("calls", torch.zeros(1))

            def forward(self, x: Any, past: list[Any], returned: bool = False) -> Any:
                self.calls.add_(1)
                past[0] = torch.cat([past[0], x])
                return (x, past) if returned else x * 2

        return Cache().eval()

    def test_they_are_refused_by_name(self, module: Any) -> None:
        import torch

        given = [torch.ones(1, 2), [torch.ones(3, 2)]]
        with pytest.raises(tc.TosaConvertError, match=r"loses: \[1\]\[0\]") as caught:
            tc.frontends.from_torch(module, given)
        assert caught.value.code == "not-lowered"

    def test_what_is_returned_is_not_lost_and_the_state_stays(self, module: Any) -> None:
        import torch

        given = [torch.ones(1, 2), [torch.ones(3, 2)], True]
        graph = tc.frontends.from_torch(module, given)
        assert [graph.main.tensors[name].shape for name in graph.main.outputs] == [(1, 2), (4, 2)]
        assert module.calls.item() == 0


def test_checks_of_the_data_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    import torch

    class Checked(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            torch._assert_async((x < 100).all(), "x is too large")
            return x + 1

    graph = tc.frontends.from_torch(Checked(), (torch.ones(3),))
    assert [one.spec.name for one in graph.main.operators].count("ADD") == 1
    assert "checks of the data are left out" in caplog.text
    assert "x is too large" in caplog.text


def test_a_tensor_that_a_model_holds_twice_is_stored_once() -> None:
    import torch

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
            self.second.weight = self.first.weight
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            return self.second(torch.relu(self.first(x)))

    graph = tc.frontends.from_torch(Tied().eval(), (torch.ones(1, 8),))
    tensors = graph.main.tensors.values()
    assert [one.element_count() for one in tensors if one.data is not None].count(64) == 1


def test_complex_inputs_and_outputs_are_named() -> None:
    import torch

    class Complex(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.fft.fft(x), y.abs()

    given = torch.ones(4), torch.ones(4, dtype=torch.complex64)
    with pytest.raises(tc.TosaConvertError, match="input y has no lowering") as caught:
        tc.frontends.from_torch(Complex(), given)
    assert caught.value.code == "not-lowered"
    assert "output fft_fft has no lowering" in str(caught.value)
