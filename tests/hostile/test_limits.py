"""Each limit changes what is accepted, in both directions."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from refusing import refused
from unit.building import example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats import read as reading
from tosa_convert.io.options import DEFAULT_LIMITS, LIMIT_NAMES, Limits, limits_of

MLIR = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.exp %x : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def nested_text(depth: int) -> bytes:
    return (
        b"module attributes {tosa.a = "
        + b"[" * depth
        + b"]" * depth
        + b"} {"
        + MLIR.encode()
        + b"}"
    )


def listed_in_text(count: int) -> bytes:
    return f"module attributes {{a.b = [{', '.join(['unit'] * count)}]}} {{{MLIR}}}".encode()


def nested_types(depth: int) -> bytes:
    type_ = "!a.b<" * depth + "1" + ">" * depth
    return f"module attributes {{a.b = {type_}}} {{{MLIR}}}".encode()


def nested_json(depth: int) -> bytes:
    text = tc.dumps(example(), "json").decode().rstrip().removesuffix("}")
    return f'{text}, "unknown": {"[" * depth}{"]" * depth}}}'.encode()


@dataclass(frozen=True)
class Row:
    """An input that needs more of a limit than `refused` and no more than `accepted`.

    others: limits that must be low so that this one decides. left: what is wrong with the input besides:
    nothing that is valid JSON of a program is nested deeply.
    """

    name: str
    refused: int
    accepted: int
    data: Callable[[], bytes]
    message: str
    others: dict[str, int]
    left: str = ""


ROWS = [
    Row("input-bytes", 100, 10_000, lambda: MLIR.encode(), "the limit is 100", {}),
    Row("input-bytes", 100, 10_000, lambda: tc.dumps(example()), "the limit is 100", {}),
    Row("json-depth", 7, 8, lambda: tc.dumps(example(), "json"), "deeper than 7", {}),
    Row("json-depth", 40, 60, lambda: nested_json(50), "deeper than 40", {}, "unknown field"),
    Row("json-depth", 64, 200, lambda: nested_json(150), "deeper than 64", {}, "unknown field"),
    Row("text-depth", 10, 60, lambda: nested_text(50), "more than 10 deep", {}),
    Row("text-depth", 100, 200, lambda: nested_text(150), "more than 100 deep", {}),
    Row("text-depth", 10, 60, lambda: nested_types(50), "more than 10 deep", {}),
    Row("text-parts", 10, 60, lambda: listed_in_text(50), "more than 10 attributes in a list", {}),
    Row("flatbuffer-memory", 1, 1 << 20, lambda: tc.dumps(example()), "describes more than it could",
        {"flatbuffer-memory-per-byte": 1}),
    Row("flatbuffer-memory-per-byte", 1, 12, lambda: tc.dumps(example()),
        "describes more than it could", {"flatbuffer-memory": 1}),
]  # fmt: skip


def problem(load: Callable[[], Any]) -> str:
    try:
        load()
    except tc.TosaConvertError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.refused}")
def test_lowering_a_limit_refuses_and_raising_it_accepts(row: Row) -> None:
    data = row.data()
    assert row.message in problem(
        lambda: tc.load(data, limits={**row.others, row.name: row.refused})
    )
    accepted = problem(lambda: tc.load(data, limits={**row.others, row.name: row.accepted}))
    assert row.message not in accepted
    assert row.left in accepted if row.left else accepted == ""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.refused}")
def test_the_command_takes_the_same_limits(
    row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m"
    path.write_bytes(row.data())
    others = [f"--limit={name}={value}" for name, value in row.others.items()]

    def convert(value: int) -> int:
        limit = f"--limit={row.name}={value}"
        return run(
            verb("convert"), [str(path), *others, limit, "--to", "tosa", "-o", f"{path}.out"]
        )

    assert convert(row.refused) != 0
    assert row.message in capsys.readouterr().err
    assert (convert(row.accepted) == 0) == (row.left == "")
    assert row.message not in capsys.readouterr().err


@pytest.mark.usefixtures("torch_mlir")
def test_a_location_deeper_than_its_limit_becomes_a_name() -> None:
    text = '"f.mlir":1:2'
    for _ in range(100):
        text = f'"n"({text})'
    made = example()
    made.main.operators[0].location = f"loc({text})"

    def written(depth: int) -> str:
        return tc.dumps(made, "mlir", limits={"location-depth": depth}).decode()

    assert 'loc("loc(' in written(DEFAULT_LIMITS.location_depth)
    assert 'loc("loc(' not in written(120)
    module = tc.to_module(made, limits=Limits(location_depth=120))
    assert 'loc("loc(' not in module.operation.get_asm(enable_debug_info=True)


def test_the_size_of_a_manifest_is_limited(tmp_path: Path) -> None:
    weight = tensor("w", "INT8", (2400,), bytes(2400))
    tc.save(graph("", "w", [weight], [op("CONST", "", "w")]), tmp_path / "m.tosa", weights="npy")

    def loaded(size: int) -> str:
        return problem(lambda: tc.load(tmp_path / "m.tosa", limits={"manifest-bytes": size}))

    assert "the limit is 100" in loaded(100)
    assert loaded(10_000) == ""
    without = tc.load(tmp_path / "m.tosa")
    with pytest.raises(tc.TosaConvertError, match="the limit is 100"):
        tc.import_weights(without, tmp_path / "m.weights", limits=Limits(manifest_bytes=100))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
@pytest.mark.parametrize("name", ["converter-memory", "converter-memory-per-byte"])
def test_a_converter_takes_as_much_memory_as_its_limit(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3".ljust(1 << 10, b"\0"))
    python = tmp_path / "python"
    code = "import sys, time\nheld = b'x' * (200 << 20)\ntime.sleep(1)\nsys.exit('enough')"
    python.write_text(f"#!{sys.executable}\n{code}\n")
    python.chmod(0o755)
    others = {row: 1 for row in LIMIT_NAMES if row.startswith("converter-memory")}

    def said(value: int) -> str:
        limits = {**others, name: value}
        return problem(lambda: tc.frontends.from_tflite(path, python=str(python), limits=limits))

    bytes_of_each = 1 if name == "converter-memory" else 1 << 10
    refused = said((100 << 20) // bytes_of_each)
    assert "the converter took more than 104," in refused
    assert "--limit converter-memory=BYTES" in refused
    assert "enough" in said((1 << 30) // bytes_of_each)


def test_every_limit_has_a_test_in_this_file() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in LIMIT_NAMES if f'"{name}"' not in source] == []


@pytest.mark.parametrize(
    "given", [{"depth": 1}, {"json-depth": 0}, {"location-depth": 999}, {"json-depth": 1.5},
              {"json-depth": True}, {"input_bytes": -1}]
)  # fmt: skip
def test_a_limit_that_does_not_exist_or_is_out_of_range_is_refused(given: dict[str, Any]) -> None:
    with refused("option-conflict", match="expected"):
        tc.load(b"", limits=given)


def test_limits_are_names_with_hyphens_or_underscores_or_an_object() -> None:
    expected = Limits(input_bytes=7)
    assert (
        limits_of({"input-bytes": 7})
        == limits_of({"input_bytes": 7})
        == limits_of(expected)
        == expected
    )
    assert limits_of(None) == Limits()


@pytest.mark.parametrize("text", ["input-bytes", "input-bytes=-1", "=1", "input-bytes=1e3",
                                  "input-bytes=" + "9" * 5000, "input-bytes=٣"])  # fmt: skip
def test_a_limit_that_is_not_a_number_is_refused_by_the_command(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verb("convert"), ["--limit", text, "m.tosa"]) == 2
    assert "error: " in capsys.readouterr().err


def test_limits_last_for_one_call() -> None:
    data = tc.dumps(example())
    assert problem(lambda: tc.load(data, limits={"input-bytes": 1}))
    assert not problem(lambda: tc.load(data))
    assert not problem(lambda: reading.load(data))


class Endless:
    """A binary stream without an end, which counts what is read of it."""

    def __init__(self) -> None:
        self.given = 0

    def read(self, size: int) -> bytes:
        self.given += size
        return bytes(size)


def test_a_stream_is_not_read_beyond_the_limit() -> None:
    source = Endless()
    with refused("too-large", match="more than 1000 bytes, the limit is 1000"):
        tc.load(source, limits={"input-bytes": 1000})
    assert source.given == 1001


@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX")
def test_a_device_is_not_read_beyond_the_limit() -> None:
    with refused("too-large", match="the limit is 1000"):
        tc.load("/dev/zero", limits={"input-bytes": 1000})


@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX")
def test_standard_input_is_not_read_beyond_the_limit() -> None:
    command = [sys.executable, "-m", "tosa_convert", "convert", "-", "--to", "json"]
    with open("/dev/zero", "rb") as zeros:
        found = subprocess.run(
            [*command, "--limit", "input-bytes=1000"],
            stdin=zeros,
            capture_output=True,
            timeout=120,
            check=False,
        )
    assert found.returncode == 4
    assert b"<stdin>: error: the input has more than 1000 bytes, the limit is 1000" in found.stderr


@pytest.mark.parametrize("field", ["regions", "blocks"])
@pytest.mark.parametrize("count", [100_000, pytest.param(1_500_000, marks=pytest.mark.slow)])
def test_refusing_containers_without_fields_takes_less_than_eight_times_the_file(
    count: int, field: str
) -> None:
    head = {"regions": b'{"regions":[', "blocks": b'{"regions":[{"name":"main","blocks":['}[field]
    text = head + b"{}," * count
    tracemalloc.start()
    with pytest.raises(TosaConvertError, match="most of them must be empty"):
        tc.load(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(text)
