"""Programs of ExecuTorch: a VGF payload is read as a program, and everything else is named."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
from refusing import error_of
from unit.formats.pte.pte_programs import CLASSIFIER, FOLDER, SHAPE

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError

WHOLE = CLASSIFIER.read_bytes()
PARTED, COMMANDS = ((FOLDER / f"{name}.pte").read_bytes() for name in ("parted", "commands"))
#: What torch computes for ones, as pte_programs.py prints it.
EXPECTED = [0.115607, -0.068395, 0.027065]


def refusal(data: bytes, **options: Any) -> tc.Finding:
    return error_of(tc.load, data, **options).findings[0]


def test_the_program_computes_what_torch_does() -> None:
    graph = tc.load(WHOLE)
    assert tc.validate(graph) == []
    (name,) = graph.main.inputs
    (found,) = tc.golden.run(
        graph, {name: np.ones(SHAPE, np.float32)}, engine="numpy"
    ).outputs.values()
    np.testing.assert_allclose(found.reshape(-1), EXPECTED, atol=2e-6)


def test_several_payloads_are_listed_and_one_is_chosen(caplog: Any) -> None:
    found = refusal(PARTED)
    assert found.code == "ambiguous-function"
    assert "forward_0 of VgfBackend (a VGF file, " in found.message
    assert "forward_0, forward_1" in found.hint
    assert refusal(PARTED, func="other").code == "unknown-function"
    first, last = (tc.load(PARTED, func=f"forward_{number}") for number in (0, 1))
    assert [len(graph.main.inputs) for graph in (first, last)] == [1, 2]
    assert "the file also has forward_1 of VgfBackend" in caplog.text
    assert "operators that no delegate runs: aten::sort" in caplog.text


def test_commands_of_an_npu_are_refused_by_name() -> None:
    found = refusal(COMMANDS)
    assert found.code == "unsupported-operator"
    assert "an Ethos-U command stream: forward_0 of EthosUBackend" in found.message
    assert "quantized_decomposed::quantize_per_tensor" in found.message
    assert "dump_intermediate_artifacts_to" in found.hint


def test_a_file_without_the_header_of_segments_is_refused() -> None:
    assert "no header that says where" in refusal(WHOLE.replace(b"eh00", b"eh01")).message


def test_a_segment_outside_the_file_is_refused() -> None:
    (base,) = struct.unpack_from("<Q", WHOLE, 24)
    data = bytearray(WHOLE)
    struct.pack_into("<Q", data, 24, base + len(data))
    assert "leads out of it" in refusal(bytes(data)).message


def test_damaged_files_are_refused_or_read() -> None:
    dice, codes = random.Random(3), set()
    for _ in range(600):
        data = bytearray(dice.choice((WHOLE, PARTED, COMMANDS)))
        for _ in range(dice.choice((1, 2, 8))):
            data[dice.randrange(8, 1400) % len(data)] = dice.choice(
                (0, 1, 255, dice.randrange(256))
            )
        try:
            tc.load(bytes(data))
        except TosaConvertError as error:
            codes.add(error.code)
    assert codes <= {
        *("malformed-pte", "malformed-vgf", "unsupported-operator", "ambiguous-function"),
        *("unsupported-attribute", "unsupported-type"),
    }
