"""Names, locations and attributes of a module are in the file, and those of a file in the module."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from refusing import refused

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph.constant import Constant

T = "tensor<2xf32>"
ABS = f'"tosa.abs"(%a) : ({T}) -> {T}'


def function(
    arguments: str = "", result: str = "", attributes: str = "", body: str = ABS, name: str = "f"
) -> str:
    """Return a function of one argument and one result, with attributes of them and of its own."""
    return (
        f"func.func @{name}(%a: {T} {arguments}) -> ({T} {result}) {attributes} "
        f"{{ %r = {body} return %r : {T} }}"
    )


def export(bindings: Bindings, text: str, **options: Any) -> tc.Graph:
    data = tc.export_tosa_func_to_flatbuffer(
        bindings.ir.Module.parse(text, bindings.new_context()), **options
    )
    return tc.load(data)


def signature(graph: tc.Graph) -> tuple[list[str], list[str]]:
    return graph.main.inputs, graph.main.outputs


# -- names --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["main", "net-1.torch", "größe", "a b", "forward$1"])
def test_the_function_keeps_its_name(name: str, bindings: Bindings) -> None:
    graph = export(bindings, function().replace("@f", f'@"{name}"'))
    assert graph.regions[0].name == name
    assert graph.main.name == "main"


@pytest.mark.parametrize(
    ("arguments", "result", "attributes"),
    [
        ('{tosa.tensor_name = "x"}', '{tosa.tensor_name = "y"}', ""),
        ("", "", 'attributes {tf.entry_function = {inputs = "x", outputs = "y"}}'),
        ('{ml_program.identifier = "x"}', '{ml_program.identifier = "y"}', ""),
        ('{tf_saved_model.index_path = ["x"]}', '{tf_saved_model.index_path = ["y"]}', ""),
        ('{jax.arg_info = "x"}', '{jax.result_info = "y"}', ""),
    ],
    ids=["the dialect's", "TFLite's", "ml_program's", "saved model's", "JAX's"],
)
def test_arguments_and_results_keep_their_names(
    arguments: str, result: str, attributes: str, bindings: Bindings
) -> None:
    graph = export(bindings, function(arguments, result, attributes))
    assert signature(graph) == (["x"], ["y"])
    # Unless other names are given.
    assert signature(export(bindings, function(arguments, result, attributes), names="generate")) == (
        ["TosaInput_0"], ["TosaOutput_0"],
    )  # fmt: skip


def test_the_dialects_own_names_win_over_a_frontends(bindings: Bindings) -> None:
    text = function(
        '{tosa.tensor_name = "x", jax.arg_info = "other"}',
        '{tosa.tensor_name = "y"}',
        'attributes {tf.entry_function = {inputs = "p", outputs = "q"}}',
    )
    assert signature(export(bindings, text)) == (["x"], ["y"])


NESTED = f"""
func.func @net(%c: tensor<i1> {{tosa.tensor_name = "choose"}}, %a: {T}) -> {T} {{
  %w = "tosa.const"() <{{values = dense<[1.0, 2.0]> : {T}}}>
      {{tosa.tensor_name = "weight"}} : () -> {T} loc("model.py":3:4)
  %s = "tosa.add"(%a, %w) {{tosa.tensor_name = "sum"}} : ({T}, {T}) -> {T} loc("layer1"("model.py":4:1))
  %r = "tosa.cond_if"(%c, %s) ({{
  ^bb0(%p: {T}):
    %1 = "tosa.exp"(%p) {{tosa.tensor_name = "inner"}} : ({T}) -> {T}
    "tosa.yield"(%1) : ({T}) -> ()
  }}, {{
  ^bb0(%p: {T}):
    "tosa.yield"(%p) : ({T}) -> ()
  }}) {{tosa.regions = [
      {{name = "yes", block = "yes_0", inputs = ["yes_in"], outputs = ["inner"]}},
      {{name = "no", block = "no_0", inputs = ["no_in"], outputs = ["no_in"]}}]}}
      : (tensor<i1>, {T}) -> {T}
  return %r : {T}
}}
"""


def test_names_of_inner_values_regions_and_blocks_are_preserved(bindings: Bindings) -> None:
    graph = export(bindings, NESTED)
    assert graph.main.inputs[0] == "choose"
    assert {"weight", "sum"} <= set(graph.main.tensors)
    assert [(r.name, r.blocks[0].name) for r in graph.regions] == [
        ("net", "main"), ("yes", "yes_0"), ("no", "no_0"),
    ]  # fmt: skip
    assert signature_of(graph, 1) == (["yes_in"], ["inner"])
    assert signature_of(graph, 2) == (["no_in"], ["no_in"])


def signature_of(graph: tc.Graph, region: int) -> tuple[list[str], list[str]]:
    block = graph.regions[region].blocks[0]
    return block.inputs, block.outputs


# -- locations ----------------------------------------------------------------------------------

#: As MLIR prints them -> as a file has them.
LOCATIONS = {
    'loc("model.py":3:4)': 'loc("model.py":3:4)',
    'loc("/home/me/secret/model.py":3:4)': 'loc("model.py":3:4)',
    'loc("C:\\\\work\\\\model.py":3:4)': 'loc("model.py":3:4)',
    'loc("model.py":3:4 to 5:6)': 'loc("model.py":3:4 to 5:6)',
    'loc("layer1")': 'loc("layer1")',
    'loc("layer1/conv"("/srv/model.py":3:4))': 'loc("layer1/conv"("model.py":3:4))',
    'loc(callsite("/a/f.py":1:2 at "/b/g.py":3:4))': 'loc(callsite("f.py":1:2 at "g.py":3:4))',
    'loc(fused["x", "/a/f.py":1:2])': 'loc(fused["x", "f.py":1:2])',
    'loc(fused<"tag">["x", "/a/f.py":1:2])': 'loc(fused<"tag">["x", "f.py":1:2])',
    'loc("with \\22quotes\\22 and \\C3\\A4")': 'loc("with \\22quotes\\22 and \\C3\\A4")',
    "loc(unknown)": "loc(unknown)",
}


def place(bindings: Bindings, location: str, **options: Any) -> str:
    text = function(body=f"{ABS} {location}").replace("} }", "}\n}").replace(" return", "\nreturn")
    return export(bindings, text, **options).main.operators[0].location


@pytest.mark.slow
@pytest.mark.parametrize(("location", "kept"), LOCATIONS.items())
def test_a_location_is_stored_without_folders_of_the_machine(
    location: str, kept: str, bindings: Bindings
) -> None:
    assert place(bindings, location) == kept
    assert place(bindings, location, full_paths=True) == location


def test_no_path_of_the_machine_is_in_the_bytes_unless_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "model.mlir"
    source.write_text(NESTED.replace('loc("model.py":3:4)', ""), encoding="utf-8")
    for form in ("tosa", "json"):
        target = tmp_path / f"out.{form}"
        tc.save(tc.load(source), target)
        assert str(tmp_path).encode() not in target.read_bytes()
        assert b"model.mlir" in target.read_bytes()
        tc.save(tc.load(source, full_paths=True), target)
        assert str(tmp_path).encode() in target.read_bytes()


# -- the same bytes -----------------------------------------------------------------------------


def test_two_exports_of_one_module_from_two_folders_are_equal(
    example: Path, tmp_path: Path
) -> None:
    files: dict[str, set[bytes]] = {}
    for folder in (tmp_path / "one", tmp_path / "another" / "deeper"):
        folder.mkdir(parents=True)
        shutil.copy(example, folder / "net.mlirbc")
        (folder / "nested.mlir").write_text(NESTED, encoding="utf-8")
        for source in ("net.mlirbc", "nested.mlir"):
            graph = tc.load(folder / source)
            out = folder / f"{source}.out"
            out.mkdir()
            for target, weights in (
                ("m.tosa", "embedded"), ("o.tosa", "offset"), ("n.tosa", "npy"), ("j.json", "npy"),
                ("m.mlir", "auto"), ("m.mlirbc", "auto"),
            ):  # fmt: skip
                tc.save(graph, out / target, weights=weights)  # type: ignore[arg-type]
            for path in out.rglob("*"):
                if path.is_file():
                    key = path.relative_to(folder).as_posix()
                    files.setdefault(key, set()).add(path.read_bytes())
    assert len(files) > 2 * 6  # the .npy files as well
    assert [key for key, contents in files.items() if len(contents) != 1] == []


def test_another_process_with_other_hashes_writes_the_same_bytes(
    example: Path, tmp_path: Path, torch_mlir: Bindings
) -> None:
    for seed in ("1", "2"):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tosa_convert",
                "convert",
                example,
                "-o",
                tmp_path / f"{seed}.tosa",
            ],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            check=True,
            cwd=tmp_path,
            timeout=60,
        )
    assert (tmp_path / "1.tosa").read_bytes() == (tmp_path / "2.tosa").read_bytes()


def test_the_nested_example_comes_back_with_equal_bytes(bindings: Bindings) -> None:
    module = bindings.ir.Module.parse(NESTED, bindings.new_context())
    first = tc.export_tosa_func_to_flatbuffer(module)
    again = tc.import_tosa_func_from_flatbuffer(first, context=bindings.new_context())
    assert tc.export_tosa_func_to_flatbuffer(again) == first


# -- --verify -----------------------------------------------------------------------------------


def _flip_a_bit(graph: tc.Graph) -> None:
    tensor = max(
        (t for t in graph.main.tensors.values() if t.data is not None),
        key=lambda t: t.data.nbytes if t.data is not None else 0,
    )
    assert tensor.data is not None
    raw = tensor.data.elements().copy()
    raw[-1, -1] ^= 0x80
    tensor.data = Constant(tensor.data.dtype, tensor.data.count, raw.reshape(-1))


def _drop_an_output(graph: tc.Graph) -> None:
    graph.main.outputs.pop()


def _change_an_attribute(graph: tc.Graph) -> None:
    operator = next(op for op in graph.main.operators if op.spec.name == "CONV2D")
    operator.attributes = {**operator.attributes, "local_bound": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "damage"),
    [
        (form, damage)
        for form in ("m.tosa", "m.json", "m.mlir", "m.mlirbc", "npy/m.tosa")
        for damage in (_flip_a_bit, _drop_an_output, _change_an_attribute)
        # The output has no weights.
        if (form, damage) != ("npy/m.tosa", _flip_a_bit)
    ],
)
def test_verify_catches_a_corrupted_write_and_leaves_the_old_file(
    form: str,
    damage: Any,
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    torch_mlir: Bindings,
) -> None:
    from tosa_convert.formats import write as writing

    target = tmp_path / form
    target.parent.mkdir(exist_ok=True)
    weights: Any = "npy" if "npy" in form else "auto"
    graph = tc.load(example)
    tc.save(graph, target, weights=weights, verify=True)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    rendered, content = writing._render_sound, tc.dumps(graph)

    def damaged(written: tc.Graph, *arguments: Any, **options: Any) -> Any:
        # Damage a copy: the result is compared with the graph that was given.
        copy = tc.load(content)
        damage(copy)
        if weights == "npy":
            for block in (b for _, b in copy.blocks()):
                for tensor in block.tensors.values():
                    if tensor.data is not None and tensor.name in written.main.tensors:
                        tensor.data = written.main.tensors[tensor.name].data
        return rendered(copy, *arguments, **options)

    monkeypatch.setattr(writing, "_render_sound", damaged)
    with refused("verification-failed", "reads back differently"):
        tc.save(graph, target, weights=weights, verify=True)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    # Without the check, the damage goes unnoticed.
    tc.save(graph, target, weights=weights)
    assert target.read_bytes() != before[target]
