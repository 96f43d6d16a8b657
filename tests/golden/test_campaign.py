"""Campaigns: edits keep the meaning of a program; what a consumer does wrong is found and reduced."""

from __future__ import annotations

import json
import random
import shlex
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from golden.test_findings import observe_again

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.backends.isolated import ProgramCommand
from tosa_convert.golden.backends.process import Machine
from tosa_convert.golden.backends.runners import ADAPTERS, Adapter
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.run_options import Engine
from tosa_convert.qualify.campaign import edits
from tosa_convert.qualify.campaign import observe as observe_module
from tosa_convert.qualify.campaign.edits import (
    DETOURS,
    SHAPES,
    exchanged,
    with_branch,
    with_computed_shape,
    with_detour,
    with_fixed_inputs,
    with_free_constants,
    with_padding_outside,
)
from tosa_convert.qualify.campaign.observe import (
    Consumer,
    Observation,
    Source,
    Trial,
    make_trial,
    observe,
    part_of_model,
    says_nothing,
)
from tosa_convert.qualify.campaign.run import (
    Campaign,
    _seen_from,
    known_causes,
    known_key,
    reduced_finding,
    run_campaign,
    save_finding,
)

#: Numbers of programs in which each detour is possible somewhere.
PROGRAMS = range(12)

FAULTY = """\
import numpy as np
import tosa_convert as tc
from tosa_convert import golden

def run(model, inputs):
    graph = tc.load(model)
    kinds = [op.spec.name for op in graph.main.operators]
    if "ABS" in kinds:
        raise RuntimeError(f"Assertion failed at {id(graph):#x}: rank < {len(kinds)}")
    found = golden.run(graph, inputs, engine="numpy").outputs
    if "BITWISE_NOT" in kinds:
        found = {name: np.where(array == array, array ^ 1, array) if array.dtype.kind == "i" else array
                 for name, array in found.items()}
    return found
"""


CORRECT = (
    FAULTY.split("    kinds")[0] + "    return golden.run(graph, inputs, engine='numpy').outputs\n"
)


def results(graph: tc.Graph, inputs: dict[str, Array]) -> dict[str, bytes]:
    found = golden.run(graph, inputs, engine="numpy").outputs
    return {name: array.tobytes() for name, array in found.items()}


@pytest.mark.parametrize("name", DETOURS)
def test_a_detour_keeps_every_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "DETOURS", {name: DETOURS[name]})
    taken = 0
    for number in PROGRAMS:
        graph = golden.generate(seed=2 * number, operators=6)
        inputs = golden.input_arrays(graph, None, random=number)
        changed = with_detour(graph, random.Random(number))
        if changed is not None and not tc.validate(changed[0]):
            assert changed[1] == name
            assert count_operators(changed[0]) > count_operators(graph)
            assert results(changed[0], inputs) == results(graph, inputs)
            taken += 1
    assert taken


def count_operators(graph: tc.Graph) -> int:
    return sum(len(block.operators) for _, block in graph.blocks())


def test_detours_are_taken_inside_of_regions() -> None:
    kept = 0
    for number in range(20):
        graph = golden.generate(seed=number, operators=3, kinds=["COND_IF", "WHILE_LOOP"])
        inputs = golden.input_arrays(graph, None, random=number)
        changed = with_detour(graph, random.Random(number))
        if changed is None or tc.validate(changed[0]):
            continue
        main = len(changed[0].main.operators)
        if main == len(graph.main.operators):
            assert results(changed[0], inputs) == results(graph, inputs)
            kept += 1
    assert kept > 3


def test_other_edits_keep_every_bit() -> None:
    taken = set()
    for number in PROGRAMS:
        graph = golden.generate(seed=2 * number, operators=6)
        inputs = golden.input_arrays(graph, None, random=number)
        choose = random.Random(number)
        for changed in (exchanged(graph, choose), with_fixed_inputs(graph, inputs, choose)):
            if changed is not None and not tc.validate(changed[0]):
                kept = {name: inputs[name] for name in changed[0].main.inputs}
                assert results(changed[0], kept) == results(graph, inputs)
                taken.add(changed[1].split()[0])
    assert taken == {"operands", "constant"}


@pytest.mark.parametrize(
    ("edit", "kinds"),
    [
        (with_computed_shape, ["RESHAPE", "TILE", "SLICE"]),
        (with_free_constants, ["MUL", "CONV2D", "PAD", "CLAMP"]),
        (with_branch, ["ADD", "RESHAPE", "REDUCE_SUM", "CONV2D", "CONCAT"]),
        (with_padding_outside, ["CONV2D", "DEPTHWISE_CONV2D"]),
    ],
)
def test_a_changed_structure_keeps_every_bit(edit: Callable[..., Any], kinds: list[str]) -> None:
    texts = set()
    for number in range(60):
        graph = golden.generate(seed=2 * number, operators=4, kinds=kinds)
        inputs = golden.input_arrays(graph, None, random=number)
        changed = edit(graph, random.Random(number))
        if changed is None:
            continue
        other, text, more = changed
        assert not tc.validate(other)
        assert tc.dumps(other) != tc.dumps(graph)
        given = golden.input_arrays(other, {**inputs, **more})
        assert results(other, given) == results(graph, inputs)
        texts.add(text)
    assert len(texts) > 1
    if edit is with_computed_shape:
        assert texts == {f"shape {way}" for way in SHAPES}


@pytest.mark.parametrize(("engine", "status"), [("numpy", "crashed"), ("auto", "not-run")])
def test_a_crash_of_the_reference_model_counts_where_numpy_judges(
    engine: Engine, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise fail("refmodel-failed", "", "the reference model ended with SIGSEGV: no message")

    monkeypatch.setattr(observe_module, "Reference", crash)
    trial = make_trial(Source(size=1, kinds=("ABS",)), 0)
    found = observe(trial, Consumer("reference-model", 10, engine))
    assert found[0] == status
    assert says_nothing(found[2]) is (status == "crashed")


def test_a_defect_is_known_to_all_consumers_of_its_package(tmp_path: Path) -> None:
    row = {
        "against": "torch-mlir:canonicalize",
        "cause": "wrong: NEGATE INT8",
        "also": ["wrong: NEGATE INT16", "iree: wrong: NEGATE INT8"],
    }
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "finding.json").write_text(json.dumps(row), encoding="utf-8")
    known = known_causes([tmp_path])
    assert known_key("torch-mlir:all", "wrong: NEGATE INT8") in known
    assert known_key("torch-mlir", "wrong: NEGATE INT16") in known
    assert known_key("tosa-opt", "wrong: NEGATE INT8") not in known
    assert known_key("iree", "wrong: NEGATE INT8") in known
    assert known_key("iree", "wrong: NEGATE INT16") not in known


def test_a_program_follows_from_its_number() -> None:
    source = Source(seed=3, size=5)
    one, other, third = (make_trial(source, number) for number in (7, 7, 8))
    assert tc.dumps(one.graph) == tc.dumps(other.graph) != tc.dumps(third.graph)
    assert one.made == other.made
    assert all(one.inputs[name].tobytes() == other.inputs[name].tobytes() for name in one.inputs)


@pytest.mark.slow
def test_edits_keep_the_scales_of_inputs() -> None:
    source = Source(size=8, kinds=("IDENTITY", "MUL"), scaled=True)
    for trial in (make_trial(source, number) for number in range(40)):
        assert [*trial.inputs] == [slot.key for slot in input_slots(trial.graph)]


def test_edits_add_no_operator_that_was_not_asked_for() -> None:
    source = Source(size=2, kinds=("ABS", "REVERSE"))
    made = [make_trial(source, number) for number in range(30)]
    used = {op.spec.name for trial in made for op in trial.graph.main.operators}
    assert used - {"CONST", "CONST_SHAPE"} == {"ABS", "REVERSE"}
    assert any("reversed twice" in trial.made for trial in made)


def test_a_part_of_a_model_runs(root: Path) -> None:
    graph = tc.load(root / "examples/digits_cnn.mlirbc")
    sizes = set()
    for number in range(8):
        part = part_of_model(graph, random.Random(number))
        assert not tc.validate(part)
        golden.run(part, random=1, engine="numpy")
        sizes.add(len(part.main.operators))
    assert len(sizes) > 3


def test_programs_like_a_model_are_generated(root: Path, tmp_path: Path) -> None:
    model = str(root / "examples/digits_cnn.mlirbc")
    words = ["--seed", "1", "--count", "6", "--size", "2", "--like", model, "-o", str(tmp_path)]
    assert run(verb("generate"), words) == 0
    graphs = [tc.load(path) for path in sorted(tmp_path.glob("*/model.tosa"))]
    assert len({tc.dumps(graph) for graph in graphs}) > 4
    own = {tensor.dtype.name for tensor in tc.load(model).main.tensors.values()}
    for graph in graphs:
        assert not tc.validate(graph)
        assert {tensor.dtype.name for tensor in graph.main.tensors.values()} <= own | {"BOOL"}
    assert run(verb("generate"), [*words, "--only", "ABS"]) == 2


def test_a_campaign_runs_on_the_cluster_of_a_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def __init__(self, address: str, timeout: float) -> None:
            self.address = address

        def scheduler_info(self) -> dict[str, list[str]]:
            return {"workers": ["one"]}

        def wait_for_workers(self, count: int, timeout: float) -> None: ...

        def get_executor(self, *, pure: bool) -> ThreadPoolExecutor:
            made.append(ThreadPoolExecutor(1))
            return made[-1]

    made: list[ThreadPoolExecutor] = []
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
    right = SimpleNamespace(check=lambda _: SimpleNamespace(ok=True))
    monkeypatch.setattr(observe_module, "Reference", lambda *_: right)
    (tmp_path / "correct.py").write_text(CORRECT)
    words = ["--against", str(tmp_path / "correct.py"), "--work", str(tmp_path / "work")]
    words += ["--scheduler", "tcp://there:1", "--max-cases", "9", "--only", "ABS", "--size", "1"]
    assert run(verb("fuzz"), [*words, "--engine", "numpy"]) == 0
    # Eight programs, and one more: an executor ends with the programs that it was given.
    assert len(made) == 2
    assert len((tmp_path / "work" / "trials.jsonl").read_text().splitlines()) == 10


@pytest.mark.slow
@pytest.mark.usefixtures("cases_here")
def test_a_campaign_finds_reduces_and_recognises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    words = ["--against", "faulty.py", "--work", str(tmp_path / "work")]
    words += ["--seconds", "600", "--max-cases", "24", "--size", "2", "--jobs", "1", "--seed", "1"]
    words += ["--only", "ABS,BITWISE_NOT,REVERSE", "--types", "INT32", "--engine", "numpy"]
    assert run(verb("fuzz"), words) == 1
    said = capsys.readouterr().out
    rows = {
        path.parent.name: json.loads(path.read_text())
        for path in tmp_path.glob("work/*/finding.json")
    }
    statuses = {row["status"] for row in rows.values()}
    assert statuses == {"crashed", "wrong"}, said
    assert all(row["operators"] == 1 for row in rows.values()), said
    # A message of a defect has other numbers and addresses in every program.
    assert sum(row["status"] == "crashed" for row in rows.values()) == 1
    for name in rows:
        folder = tmp_path / "work" / name
        case = tc.load(folder / "model.tosa")
        assert {op.spec.name for op in case.main.operators} & {"ABS", "BITWISE_NOT"}
        assert tc.load(folder / "model.mlir").main.operators
        report = (folder / "report.md").read_text()
        printed = report.split("```sh\n")[1].partition("\n")[0]
        wanted = "tosa-flatbuffer check ./model.tosa -i ./inputs.npz --against ../../faulty.py "
        assert printed.startswith(wanted)
        with monkeypatch.context() as there:
            there.chdir(folder)
            assert run(verb("check"), shlex.split(printed)[2:]) != 0
        again = capsys.readouterr()
        assert "[file-error]" not in again.err
        assert rows[name]["said"].splitlines()[0] in again.out + again.err
        assert "```mlir" in report
    # The same command again goes on, and knows its findings.
    assert run(verb("fuzz"), words) == 0
    assert "0 new findings" in capsys.readouterr().out
    # Another campaign does not report what is known.
    other = [*words[:3], str(tmp_path / "other"), *words[4:], "--known", str(tmp_path / "work")]
    assert run(verb("fuzz"), other) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("cases_here")
@pytest.mark.parametrize("stage", ["observe.input_arrays", "observe.Reference"])
def test_an_exception_of_this_package_is_a_finding_and_ends_no_campaign(
    stage: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def spoilt(graph: tc.Graph, *rest: Any, **options: Any) -> Any:
        raise ValueError(f"axes do not match {id(graph)}")

    path, work = tmp_path / "correct.py", tmp_path / "work"
    path.write_text(CORRECT)
    words = ["--against", str(path), "--seconds", "600", "--max-cases", "4", "--size", "1"]
    words += ["--only", "ABS,REVERSE", "--engine", "numpy", "--jobs", "1"]
    monkeypatch.setattr(f"tosa_convert.qualify.campaign.{stage}", spoilt)
    assert run(verb("fuzz"), [*words, "--work", str(work)]) == 1
    said = capsys.readouterr().out
    assert "a defect of tosa-convert: error: ValueError in spoilt of test_campaign.py" in said
    (folder,) = (one.parent for one in work.glob("*/finding.json"))
    report = (folder / "report.md").read_text()
    assert "axes do not match" in report
    repeated = shlex.split(report.split("```sh\n")[1].partition("\n")[0])[2:]
    repeated[-1] = str(tmp_path / "again")
    assert run(verb("fuzz"), [*repeated, "--jobs", "1"]) == 1
    assert "a defect of tosa-convert: error: ValueError in spoilt" in capsys.readouterr().out
    # It is known now, and the campaign goes on with other programs.
    assert run(verb("fuzz"), [*words, "--work", str(work)]) == 0


@pytest.mark.slow
def test_a_wrong_result_of_bf16_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "faulty.py"
    path.write_text(
        "import ml_dtypes\nimport numpy as np\n\n"
        "def run(model, inputs):\n"
        "    assert all(array.dtype == ml_dtypes.bfloat16 for array in inputs.values())\n"
        "    return {'y': np.zeros_like(inputs['x'])}\n"
    )
    consumer = Consumer(str(path), 60.0, "numpy")
    builder = Builder("main")
    builder.output(builder.abs(builder.input("x", "BF16", (3,))), name="y")
    graph = builder.graph()
    inputs = golden.input_arrays(graph, {"x": [1, -2, 3]})
    trial = Trial(graph, inputs, "")
    status, said, group = observe(trial, consumer)
    seen = Observation("0", status, said, group=group)
    finding = reduced_finding(trial, seen, consumer)
    assert finding is not None
    save_finding(finding, tmp_path / "finding", consumer)
    assert observe_again(tmp_path / "finding")[0] == "wrong"


@pytest.mark.slow
def test_what_is_not_reduced_in_time_waits_for_the_same_command(tmp_path: Path) -> None:
    path = tmp_path / "backend.py"
    path.write_text(FAULTY)
    consumer = Consumer(str(path), 60.0, "numpy")
    source = Source(size=1, kinds=("ABS", "REVERSE"))
    campaign = Campaign(source, consumer, tmp_path / "work", 600.0, count=4, reducing=0.0)
    notes: list[str] = []
    found = run_campaign(campaign, note=notes.append)
    assert notes == ["1 kind of failures are reduced now, for about 0 s"]
    assert (len(found.waiting), found.folders) == (1, {})
    again = run_campaign(replace(campaign, count=0, reducing=600.0))
    assert (again.waiting, len(again.folders)) == ([], 1)


def test_a_report_names_files_as_its_folder_has_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sim.py", "m.tosa"):
        Path(name).write_text("")
    folder = Path("work/wrong-abs")
    for against, wanted in (
        ("sim.py", "../../sim.py"),
        (str(tmp_path / "sim.py"), str(tmp_path / "sim.py")),
        ("extension:sim", "extension:sim"),
        ("iree", "iree"),
        ("tflite:m.tosa", "tflite:../../m.tosa"),
        (f"{sys.executable} sim.py {{model}}", f"{sys.executable} ../../sim.py '{{model}}'"),
    ):
        assert _seen_from(folder, against) == wanted


@pytest.mark.slow
def test_what_failed_runs_again_on_a_changed_backend(tmp_path: Path) -> None:
    path = tmp_path / "backend.py"
    path.write_text(FAULTY)
    source = Source(size=1, kinds=("ABS",))
    consumer = Consumer(str(path), 60.0, "numpy")

    def campaign(count: int) -> Campaign:
        return Campaign(source, consumer, tmp_path / "work", 600.0, count=count)

    assert run_campaign(campaign(1)).tried == {"crashed": 1}
    path.write_text(FAULTY.replace('"ABS" in kinds', '"TANH" in kinds'))
    assert run_campaign(campaign(0)).tried == {"pass": 1}


@pytest.mark.slow
def test_by_default_as_many_processes_as_processors_work(tmp_path: Path) -> None:
    (tmp_path / "correct.py").write_text(CORRECT)
    words = ["--against", str(tmp_path / "correct.py"), "--work", str(tmp_path / "work")]
    assert run(verb("fuzz"), [*words, "--max-cases", "2", "--size", "1", "--engine", "numpy"]) == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [("raise NotImplementedError('no')", "backend-refused"), ("", "backend-failed")],
)
def test_a_campaign_that_compared_nothing_is_an_error(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "backend.py"
    if text:
        path.write_text(f"def run(model, inputs):\n    {text}\n")
    consumer = Consumer(str(path), 60.0, "numpy")
    campaign = Campaign(Source(size=1), consumer, tmp_path / "work", 600.0, count=2)
    with pytest.raises(TosaConvertError, match="none of 2 programs was compared") as caught:
        run_campaign(campaign)
    assert caught.value.code == code


# -- commands that write a program -----------------------------------------------------------------


def command(tmp_path: Path, text: str) -> str:
    path = tmp_path / "convert.py"
    path.write_text(f"import sys\n{text}\n")
    return f"{sys.executable} {path}"


def test_what_a_command_writes_is_computed(tmp_path: Path) -> None:
    graph = golden.generate(seed=4, operators=1, kinds=["BITWISE_NOT"])
    copy = command(tmp_path, "open(sys.argv[2], 'wb').write(open(sys.argv[1], 'rb').read())")
    for marks in ("{model} {program}.tosa", "{mlir} {program}.mlir"):
        assert golden.check(graph, f"{copy} {marks}", random=1, engine="numpy").ok
    drop = command(
        tmp_path,
        "text = open(sys.argv[1]).read()\n"
        "open(sys.argv[2], 'w').write(text.replace('tosa.bitwise_not', 'tosa.identity'))",
    )
    assert not golden.check(graph, f"{drop} {{mlir}} {{program}}.mlir", random=1, engine="numpy").ok


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pass", "wrote 0 files in place of one program"),
        ("open(sys.argv[2], 'w').write('func.func')", "what it wrote cannot be read"),
        ("sys.exit(3)", "exit code 3"),
    ],
)
def test_a_command_that_writes_no_program_fails(tmp_path: Path, text: str, message: str) -> None:
    graph = golden.generate(seed=4, operators=1, kinds=["REVERSE"])
    with pytest.raises(TosaConvertError, match=message) as raised:
        golden.check(
            graph, f"{command(tmp_path, text)} {{mlir}} {{program}}.mlir", random=1, engine="numpy"
        )
    assert raised.value.code == "backend-failed"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("error: failed to legalize operation 'tosa.gather'", "refused"),
        ("error: 'tosa.variable' op illegal: no profile has (i1)", "refused"),
        ("error: 'spirv.Tosa.MatMul' op failed to verify", "refused"),
        ("error: 'tosa.variable_read' op 'state3' has not been declared", "refused"),
        ("error: 'tosa.variable_write' op require same element type for 'input1'", "refused"),
        ("error: 'tosa.pad' op expect input and output to have same element type", "crashed"),
        ("error: 'func.func' op failed to emulate bit width", "refused"),
        ("error: 'tosa.negate' op expected compile time resolvable constant, but", "refused"),
        ("error: 'tosa.mul' op expected compile time resolvable const", "refused"),  # cut
        ("error: 'tensor.extract' op incorrect number of indices", "crashed"),
        ("error: \"-\":4:10: 'arith.extsi' op operand type 'i64'", "crashed"),
        ("error: internal error: initialization order invalid", "crashed"),
    ],
)
def test_a_compiler_that_makes_invalid_ir_refuses_nothing(
    tmp_path: Path, said: str, status: str
) -> None:
    path = tmp_path / "compiler.py"
    path.write_text(f"def run(*a):\n    raise NotImplementedError({said!r})")
    trial = make_trial(Source(size=1, kinds=("REVERSE",)), 0)
    assert observe(trial, Consumer(str(path), 60.0, "numpy"))[0] == status


# -- consumers by name -----------------------------------------------------------------------------


@pytest.mark.parametrize("judge", [golden.check, golden.bisect])
@pytest.mark.parametrize(
    ("text", "code"),
    [("pass", "option-conflict"), ("sys.exit('Validation error: no')", "backend-refused")],
)
def test_what_a_consumer_only_reads_is_not_called_equal(
    tmp_path: Path, judge: Callable[..., object], text: str, code: str
) -> None:
    graph = golden.generate(seed=4, operators=1, kinds=["REVERSE"])
    words = [*command(tmp_path, text).split(), "{model}"]
    reader = ProgramCommand(words, Machine(sys.executable, 60.0), refusal="Validation error:")
    with pytest.raises(TosaConvertError) as raised:
        judge(graph, reader, random=1, engine="numpy")
    assert raised.value.code == code
    assert code == "backend-refused" or "nothing was compared" in str(raised.value)


def test_a_campaign_counts_what_a_consumer_only_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = golden.generate(seed=4, operators=1, kinds=["REVERSE"])
    trial = Trial(graph, golden.input_arrays(graph, None, random=1), "")
    row = Adapter("none", (*command(tmp_path, "pass").split(), "{model}"))
    monkeypatch.setitem(cast("dict[str, Adapter]", ADAPTERS), "reader", row)
    assert observe(trial, Consumer("reader", 60.0, "numpy")) == ("pass", "", "")
