from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tosa_convert as tc
from tosa_convert import api, golden
from tosa_convert.cli import main
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.running import reference_model_process
from tosa_convert.graph import Graph
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.graph.versions import V1_0
from tosa_convert.io.formats import Format
from tosa_convert.qualify.random_graphs import generate as random_graphs
from tosa_convert.qualify.random_graphs.builder import SCALED_RULES
from tosa_convert.qualify.random_graphs.generate import GENERATED, NOT_GENERATED, RULES, generate


def data(seed: int, operators: int = 30) -> bytes:
    return b"".join(api.encode(generate(seed, operators)))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not() -> None:
    assert data(3) == data(3)
    assert data(3) != data(4)


#: Of programs with variables and regions.
KINDS = ["VARIABLE_READ", "VARIABLE_WRITE", "COND_IF", "WHILE_LOOP", "ADD"]


@pytest.mark.parametrize("form", ["mlir", "mlirbc", "json", "tosa"])
@pytest.mark.parametrize("seeds", [4, pytest.param(16, marks=pytest.mark.slow)])
def test_variables_of_regions_come_back_as_they_were(seeds: int, form: Format) -> None:
    both = 0
    for seed in range(seeds):
        made = generate(seed, 12, kinds=KINDS)
        again = tc.load(tc.dumps(made, form))
        assert tc.compare(made, again, names=True, locations=True) is None
        assert listed(again) == listed(made), "blocks list other variables"
        both += bool(listed(made)[0]) and len(made.regions) > 1
        once = tc.dumps(again, "tosa")
        assert tc.dumps(tc.load(tc.dumps(again, form)), "tosa") == once
    assert both > seeds // 8


def listed(made: Graph) -> list[set[tuple[str, bool]]]:
    """Return the variables that each block lists, and whether with an initial value."""
    return [
        {(t.variable_name, t.data is not None) for t in block.tensors.values() if t.variable}
        for _, block in made.blocks()
    ]


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    import os
    import sys

    program = (
        "import hashlib; from tosa_convert import api, golden; "
        "data = b''.join(api.encode(golden.generate(3, 30))); "
        "print(hashlib.sha256(data).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1


@pytest.mark.parametrize("seed", range(20))
def test_every_graph_is_sound_and_has_as_many_operators_as_asked_for(seed: int) -> None:
    graph = generate(seed, 25)
    assert tc.validate(graph) == []
    assert sum(not op.spec.name.startswith("CONST") for op in graph.main.operators) == 25
    assert graph.main.outputs


@pytest.mark.slow
def test_every_operator_of_the_table_is_generated_or_there_is_a_reason() -> None:
    seen = {op.spec.name for seed in range(60) for op in generate(seed, 40).main.operators}
    every = {row.name for row in OPERATORS}
    assert {*GENERATED} - seen == set()
    assert set(RULES) == every - NOT_GENERATED.keys()
    assert all(NOT_GENERATED.values())


@pytest.mark.parametrize("kind", SCALED_RULES)
def test_tensors_hold_their_scales_only_if_asked(kind: str) -> None:
    held = 0
    for seed in (0, 2):
        assert not scaled_tensors(generate(seed, 4, kinds=[kind]))
        made = generate(seed, 4, kinds=[kind], scaled=True)
        held += len(scaled_tensors(made))
        assert not tc.validate(made)
        found = golden.run(made, random=seed, engine="numpy").outputs
        assert golden.check(made, found, random=seed, engine="numpy").ok
    assert held


def scaled_tensors(graph: Graph) -> list[str]:
    return [name for name, tensor in graph.main.tensors.items() if tensor.scale is not None]


def test_every_second_seed_uses_only_the_first_version() -> None:
    versions = [generate(seed, 30).version for seed in range(20)]
    assert set(versions[1::2]) == {V1_0}
    assert V1_0 not in versions[::2]


@pytest.mark.slow
def test_regions_hold_operators_and_other_regions() -> None:
    graphs = [generate(seed, 30) for seed in range(60)]
    nested = [op for g in graphs for r in g.regions[1:] for op in r.blocks[0].operators]
    assert {"COND_IF", "WHILE_LOOP"} <= {op.spec.name for op in nested}


@pytest.mark.parametrize("kind", sorted(RULES))
def test_an_operator_can_be_asked_for_alone(kind: str) -> None:
    try:
        graph = generate(1, 3, kinds=[kind])
    except TosaConvertError as error:
        pytest.fail(str(error))
    assert {op.spec.name for op in graph.main.operators} - {"CONST", "CONST_SHAPE"} == {kind}


@pytest.mark.parametrize(
    "profile", ["PRO-INT", "PRO-FP", "pro-int,EXT-INT16,EXT-CONTROLFLOW", "PRO-FP,EXT-VARIABLE"]
)
def test_a_program_needs_no_more_than_the_profile(profile: Any) -> None:
    seen: set[str] = set()
    for seed in range(20):
        graph = generate(seed, 10, profile=profile)
        assert tc.validate(graph, profile=profile, level="8k") == []
        assert sum(not op.spec.name.startswith("CONST") for op in graph.main.operators) == 10
        seen |= {op.spec.name for op in graph.main.operators}
    assert len(seen) > 40
    assert ("COND_IF" in seen) == ("CONTROLFLOW" in profile)
    assert ("VARIABLE_READ" in seen) == ("VARIABLE" in profile)


@pytest.mark.parametrize("types", [["INT8", "INT32"], ["fp16"], ["BOOL"], ["BF16", "FP32"]])
def test_inputs_and_results_have_the_types_that_were_asked_for(types: list[str]) -> None:
    wanted = {name.upper() for name in types}
    for seed in range(10):
        graph = generate(seed, 10, types=types)
        inputs = {graph.main.tensors[name].dtype.name for name in graph.main.inputs}
        results = {
            block.tensors[name].dtype.name
            for _, block in graph.blocks()
            for op in block.operators
            for name in op.outputs
            if name in block.tensors and op.spec.name != "CONST"
        }
        assert inputs | results <= wanted
        assert tc.validate(graph) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kinds": ["CONV2D", "ABS"], "types": ["BOOL"]}, "CONV2D, ABS cannot be generated with"),
        ({"kinds": ["FFT2D"], "profile": "PRO-INT"}, "FFT2D cannot be generated with --profile"),
        ({"profile": "PRO-INT", "types": ["FP32"]}, "--profile PRO-INT --types FP32"),
        (
            {"kinds": ["SELECT"], "types": ["INT32", "INT16"]},
            "no operands were found for SELECT with",
        ),
        ({"types": ["FP31"]}, "found 'FP31'"),
        ({"profile": "EXT-INT16"}, "EXT-INT16 needs PRO-INT"),
        ({"level": "4k"}, "found '4k'"),
    ],
)
def test_what_no_program_can_have_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TosaConvertError, match=said) as caught:
        generate(1, 5, **options)
    assert caught.value.code == "option-conflict"


def test_the_command_makes_programs_of_a_profile_and_of_types(tmp_path: Path) -> None:
    options = ["--profile", "PRO-INT,EXT-INT16", "--types", "int8", "--types", "INT32,INT16"]
    more = ["--level", "8k", "--seed", "4", "--size", "5", "--count", "3", "-o", str(tmp_path)]
    assert main.run(main.verb("generate"), [*options, *more]) == 0
    for path in tmp_path.glob("*/model.tosa"):
        assert tc.validate(tc.load(path), profile=["PRO-INT", "EXT-INT16"]) == []
    assert len(list(tmp_path.glob("*/inputs.npz"))) == 3
    assert main.run(main.verb("generate"), ["--types", "INT9", *more]) == 2


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(TosaConvertError, match="cannot generate NOPE"):
        generate(1, 3, kinds=["NOPE"])
    with pytest.raises(TosaConvertError):
        generate(1, 0)


def test_the_generator_imports_only_the_graph_the_rules_and_the_builder() -> None:
    allowed = ("graph", "rules", "builder", "errors", "qualify.random_graphs")
    for path in Path(random_graphs.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tosa_convert"):
                assert str(node.module).removeprefix("tosa_convert.").startswith(allowed), path


@pytest.mark.oracle
@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("seed", range(60))
def test_the_reference_model_accepts_generated_graphs(seed: int) -> None:
    assert is_accepted(generate(seed, 30), seed)


def is_accepted(graph: Graph, seed: int) -> bool:
    """Run a program; tell whether it has a result, or needs what the reference model does not have."""
    try:
        return bool(golden.run(graph, random=seed, options=golden.RunOptions(level="8k")).outputs)
    except TosaConvertError as error:
        # Convolutions of mixed types, and INT64 that are indexed: both are new in TOSA 1.1.
        lacks = re.search(
            "reference model has no (CONV3D|TRANSPOSE_CONV2D|GATHER|SCATTER) ", str(error)
        )
        return lacks is not None and graph.version != V1_0


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("kind", GENERATED)
def test_the_reference_model_accepts_each_operator_alone(kind: str) -> None:
    for seed in range(3):
        assert is_accepted(generate(seed, 4, kinds=[kind]), seed)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.usefixtures("refmodel")
def test_tosa_opt_accepts_generated_graphs(tmp_path: Path) -> None:
    program = reference_model_process.locate().with_name("tosa-opt")
    schema = reference_model_process.locate().with_name("tosa.fbs")
    if not (program.exists() and schema.exists()):
        pytest.skip("this tosa-tools has no tosa-opt")
    empty = tmp_path / "empty.mlir"
    empty.write_text("module {}")
    for seed in range(20):
        path = tmp_path / f"{seed}.tosa"
        path.write_bytes(data(seed))
        command = [str(program), f"--tosa-deserialize=tosa-flatbuffer-filename={path}"]
        command += [str(empty)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, f"seed {seed}: {ended.stderr[:500]}"
        assert "tosa." in ended.stdout


def test_a_backends_own_list_of_operators_may_have_constants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seed", "2", "--size", "5", "-o", str(tmp_path / "m.tosa"), "--only"]
    assert main.run(main.verb("generate"), [*words, "CONST,RESHAPE,const_shape"]) == 0
    kinds = {op.spec.name for op in tc.load(tmp_path / "m.tosa").main.operators}
    assert kinds == {"CONST_SHAPE", "RESHAPE"}
    assert main.run(main.verb("generate"), [*words, "CONST"]) == 2
    assert "--only CONST: a program needs other operators, too" in capsys.readouterr().err
