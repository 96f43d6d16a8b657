"""Code in files of exported torch programs is not run, unless the program was made in this process."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch
from torch.utils import _pytree as pytree

from tosa_convert.frontends.torch.archive import load_archive

pytestmark = pytest.mark.filterwarnings("ignore")
Files = dict[str, bytes]


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def sound() -> Files:
    """Return the members of a program's file."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval()
    rows = torch.export.Dim("rows")
    made = io.BytesIO()
    program = torch.export.export(module, (torch.zeros(4, 3),), dynamic_shapes=({0: rows},))
    torch.export.save(program, made)
    with zipfile.ZipFile(made) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(files: Files, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def member(files: Files, end: str) -> str:
    return next(name for name in files if name.endswith(end))


def changed(files: Files, end: str, change: Callable[[Any], object]) -> None:
    """Change a member that is JSON."""
    found = json.loads(files[member(files, end)])
    change(found)
    files[member(files, end)] = json.dumps(found).encode()


def saved(thing: object) -> bytes:
    made = io.BytesIO()
    torch.save(thing, made)
    return made.getvalue()


def example_inputs(files: Files, path: Path) -> None:
    files[member(files, "sample_inputs/model.pt")] = saved((Evil(path),))


def weight(files: Files, path: Path) -> None:
    changed(
        files, "weights_config.json", lambda row: row["config"]["0.weight"].update(use_pickle=True)
    )
    files[member(files, "weight_0")] = saved(Evil(path))


def old_weights(files: Files, path: Path) -> None:
    name = member(files, "weights_config.json").rpartition("/")[0]
    files[f"{name}/model.pt"] = saved({"0.weight": Evil(path)})


def constant(files: Files, path: Path) -> None:
    row = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    changed(files, "constants_config.json", lambda found: found["config"].update(thing=row))
    name = member(files, "constants_config.json").rpartition("/")[0]
    files[f"{name}/opaque_obj_0"] = pickle.dumps(Evil(path))


def expression(files: Files, path: Path) -> None:
    text = f"__import__('pathlib').Path({str(path)!r}).touch()"

    def change(found: Any) -> None:
        values = found["graph_module"]["graph"]["tensor_values"]
        size = {"expr_str": text, "hint": {"as_int": 4}}
        next(iter(values.values()))["sizes"][0] = {"as_expr": size}

    changed(files, "models/model.json", change)


def compiled(files: Files, path: Path) -> None:
    files[member(files, "models/model.json").partition("/")[0] + "/data/aotinductor/m/m.so"] = (
        b"\x7fELF"
    )


@pytest.mark.parametrize(
    "make", [example_inputs, weight, old_weights, constant, expression, compiled]
)
def test_code_in_a_file_is_refused_and_not_run(
    make: Callable[[Files, Path], None],
    sound: Files,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    files = dict(sound)
    make(files, tmp_path / "ran")
    path = write(files, tmp_path / "m.pt2")
    assert run(verb("convert"), [str(path), "-o", str(tmp_path / "m.tosa")]) == 4
    said = capfd.readouterr().err
    assert f"{path}: error: loading it would run code of the file" in said
    assert "if you trust the file" in said
    assert {one.name for one in tmp_path.iterdir()} == {"m.pt2"}
    if make is not compiled:  # Each of them does run otherwise.
        with contextlib.suppress(Exception):
            load_archive(path, "m.pt2", trusted=True)
        assert (tmp_path / "ran").exists()


def test_conditions_on_inputs_are_not_run(sound: Files, tmp_path: Path) -> None:
    """They are Python, which torch runs when a program is exported again with other shapes."""
    files = dict(sound)
    text = f"__import__('pathlib').Path({str(tmp_path / 'ran')!r}).touch() is None"
    changed(files, "models/model.json", lambda found: found.update(guards_code=[text]))
    path = write(files, tmp_path / "m.pt2")
    graph = tc.frontends.from_file(path, input_shapes={"input": (4, 3)})
    assert graph.main.tensors[graph.main.inputs[0]].shape == (4, 3)
    assert not (tmp_path / "ran").exists()


def test_a_sound_file_is_loaded(sound: Files, tmp_path: Path) -> None:
    path = write(sound, tmp_path / "m.pt2")
    graph = tc.frontends.from_file(path, input_shapes={"input": (4, 3)})
    assert graph.main.outputs == ["relu"]


@pytest.mark.parametrize(
    "text",
    [
        *("s0", "2*s77 + 1", "Max(1, u3)//4", "FloorDiv(s0, 2) - 1.5", "Eq(Mod(s0, 8), 0)"),
        *("Symbol('s31', positive=True, integer=True)", "Float('1.5', precision=53)"),
        "GreaterThan(Symbol('u0', integer=True), Integer(0))",
    ],
)
def test_expressions_of_sizes_are_accepted(text: str) -> None:
    from tosa_convert.frontends.torch.archive import _is_expression

    assert _is_expression(text)


@pytest.mark.parametrize(
    "text", ["chr(95)", "s0.real", "'a'", "__import__", "eval(s0)", "[s0]", "s0;s1", "S('x')", 3]
)
def test_python_that_is_no_size_expression_is_refused(text: object) -> None:
    from tosa_convert.frontends.torch.archive import _is_expression

    assert not _is_expression(text)


@pytest.mark.parametrize("name", ["models/model.json", "archive_version", "weights_config.json"])
def test_a_damaged_file_is_refused(name: str, sound: Files, tmp_path: Path) -> None:
    files = dict(sound)
    del files[member(files, name)]
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(write(files, tmp_path / "m.pt2"))
    assert caught.value.code == "unrecognised-input"
    assert "Traceback" not in str(caught.value)


def test_a_file_that_unpacks_to_more_than_it_has_is_refused(sound: Files, tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sound.items():
            archive.writestr(name, data + b" " * (8 << 20) * name.endswith("model.json"))
    with pytest.raises(tc.TosaConvertError, match="larger than the archive"):
        tc.frontends.from_file(path)


def test_what_this_process_made_may_have_pickled_objects(tmp_path: Path) -> None:
    """A tensor of another class, as quantisation makes them, is pickled."""
    module = torch.nn.Linear(3, 2).eval()
    assert len(tc.frontends.from_torch(module, [torch.zeros(1, 3)]).main.inputs) == 1


def of_unknown_classes(path: Path) -> Path:
    """Return a program whose arguments and results have classes that no other process has."""

    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    class Net(torch.nn.Module):
        def forward(self, pair: Any) -> Any:
            return Pair(pair.a + 1, [pair.b * 2])

    def keyed(one: Any) -> Any:
        return [(pytree.GetAttrKey("a"), one.a), (pytree.GetAttrKey("b"), one.b)], ["a", "b"]

    name = f"elsewhere.Pair{path.stem}"
    pytree.register_pytree_node(
        Pair,
        lambda one: ([one.a, one.b], ["a", "b"]),
        lambda children, _: Pair(*children),
        serialized_type_name=name,
        flatten_with_keys_fn=keyed,
    )
    given = (Pair(torch.ones(2), torch.ones(3)),)
    program = torch.export.export(Net(), given)
    program.example_inputs = None
    torch.export.save(program, path)
    del pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    return path


def test_unknown_classes_become_dictionaries_and_nothing_is_imported(tmp_path: Path) -> None:
    path = of_unknown_classes(tmp_path / "one.pt2")
    graph = tc.frontends.from_file(path)
    assert graph.main.inputs == ["pair['a']", "pair['b']"]
    assert graph.main.outputs == ["a", "b[0]"]


@pytest.mark.slow
def test_a_file_with_unknown_classes_is_checked(tmp_path: Path) -> None:
    path = of_unknown_classes(tmp_path / "two.pt2")
    assert run(verb("convert"), [str(path), "-o", str(tmp_path / "m.tosa"), "--check"]) == 0


def test_a_file_is_refused_by_the_cause_that_torch_only_logs(sound: Files, tmp_path: Path) -> None:
    files = dict(sound)

    def change(found: Any) -> None:
        found["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.elsewhere.unknown.default"

    changed(files, "models/model.json", change)
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(write(files, tmp_path / "m.pt2"))
    assert "elsewhere" in str(caught.value)
    assert "another release" not in str(caught.value)


def test_a_file_of_another_schema_says_which(sound: Files, tmp_path: Path) -> None:
    files = dict(sound)
    later = {"major": 99, "minor": 1}
    changed(files, "models/model.json", lambda found: found.update(schema_version=later))
    with pytest.raises(tc.TosaConvertError, match=r"the file has schema 99\.1"):
        tc.frontends.from_file(write(files, tmp_path / "m.pt2"))


class Scaled(torch.nn.Sequential):
    """Has a buffer that is not in its state dict."""

    def __init__(self) -> None:
        super().__init__(torch.nn.Linear(3, 2), torch.nn.ReLU())
        self.register_buffer("scale", torch.tensor([2.0, 3.0]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = super().forward(x) * self.scale
        return made


@pytest.fixture(params=["meta", "taken out"])
def without_weights(request: Any, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Return a file without its weights, and the weights."""
    torch.manual_seed(0)
    module = Scaled().eval()
    weights = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    is_meta = request.param == "meta"
    if is_meta:
        weights["scale"] = module.scale.numpy()
    device = torch.device("meta" if is_meta else "cpu")
    made = io.BytesIO()
    program = torch.export.export(module.to(device), (torch.zeros(4, 3, device=device),))
    torch.export.save(program, made)
    with zipfile.ZipFile(made) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    if not is_meta:
        files = {name: data for name, data in files.items() if "weights/weight_" not in name}
    return write(files, tmp_path / "m.pt2"), weights


def test_weights_beside_a_file_become_part_of_the_program(
    without_weights: tuple[Path, dict[str, Any]],
) -> None:
    library = pytest.importorskip("safetensors.numpy")
    path, weights = without_weights
    with pytest.raises(tc.TosaConvertError, match="mismatched-weights") as caught:
        load_archive(path, "m.pt2")
    assert "as m.safetensors" in str(caught.value)
    library.save_file(weights, path.with_suffix(".safetensors"))
    program = load_archive(path, "m.pt2")
    x = torch.randn(4, 3)
    expected = torch.relu(x @ torch.tensor(weights["0.weight"]).T + torch.tensor(weights["0.bias"]))
    torch.testing.assert_close(program.module()(x), expected * torch.tensor([2.0, 3.0]))
    assert tc.frontends.from_file(path).main.inputs == ["x"]
    wrong = {"0.weight": weights["0.weight"].astype("float64"), "1.bias": weights["0.bias"]}
    library.save_file(wrong, path.with_suffix(".safetensors"))
    with pytest.raises(tc.TosaConvertError, match="mismatched-weights") as caught:
        load_archive(path, "m.pt2")
    assert "F64 [2, 3], m.pt2 expects FLOAT [2, 3]" in str(caught.value)
    assert "it has no 0.bias" in str(caught.value)


def test_large_weights_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(512, 512, bias=False)
            self.last = torch.nn.Linear(512, 512, bias=False)
            self.last.weight = self.first.weight
            self.turned = torch.nn.Parameter(torch.randn(256, 1024).T, requires_grad=False)
            self.small = torch.nn.Parameter(torch.randn(256))

        def forward(self, x: torch.Tensor) -> Any:
            return self.last(self.first(x)), self.turned * self.small

    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Tied().eval(), (torch.zeros(2, 512),)), path)
    expected, program = torch.export.load(path), load_archive(path, "m.pt2")
    assert program.state_dict.keys() == expected.state_dict.keys()
    for name, tensor in expected.state_dict.items():
        found = program.state_dict[name]
        assert torch.equal(found, tensor)
        assert (type(found), found.stride()) == (type(tensor), tensor.stride())
    x = torch.randn(2, 512)
    torch.testing.assert_close(program.module()(x), expected.module()(x))
    large = [program.state_dict[name] for name in ("first.weight", "last.weight", "turned")]
    assert large[0].data_ptr() == large[1].data_ptr()
    if (maps := Path("/proc/self/maps")).exists():
        rows = [line.split() for line in maps.read_text().splitlines() if str(path) in line]
        ranges = [[int(end, 16) for end in row[0].split("-")] for row in rows]
        assert all(any(a <= one.data_ptr() < b for a, b in ranges) for one in large)
    assert len(tc.frontends.from_file(path).main.outputs) == 2


def test_weights_are_right_wherever_they_are_in_the_archive(tmp_path: Path) -> None:
    """torch aligns its members; an archive that another program wrote has them anywhere."""
    module = torch.nn.Linear(1024, 512, bias=False).eval()
    made, path = io.BytesIO(), tmp_path / "m.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(1, 1024),)), made)
    for pad in range(4):
        with zipfile.ZipFile(made) as source, zipfile.ZipFile(path, "w") as target:
            for row in source.infolist():
                entry = zipfile.ZipInfo(row.filename)
                entry.extra = b"\0\0" + pad.to_bytes(2, "little") + bytes(pad)
                target.writestr(entry, source.read(row))
        found = load_archive(path, "m.pt2").state_dict["weight"]
        assert torch.equal(found, module.weight)
        assert found.data_ptr() % 4 == 0
