"""Attributes of every kind: the value in the graph, and the same attribute in MLIR again."""

from __future__ import annotations

from typing import Any

import pytest
from unit.building import graph, op, tensor

from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph import Graph, ShapeValue, Tensor, compare, dtype, verify
from tosa_convert.graph.dtypes import NanPropagationMode, ResizeMode, RoundingMode

NAN = NanPropagationMode.PROPAGATE

#: Type -> pairs of bounds as the bytes of a file, without padding.
BOUNDS = {
    "INT8": ["80 7f", "ff 01"],
    "INT16": ["0080 ff7f", "ffff 0100"],
    "INT32": ["00000080 ffffff7f"],
    "INT64": ["0000000000000080 ffffffffffffff7f"],
    "INT48": ["000000000080 ffffffffff7f"],
    "FP16": ["00fc 007c", "0080 0000", "0180 ff7b"],
    "BF16": ["80ff 807f", "0080 0000", "0180 7f7f"],
    "FP32": ["000080ff 0000807f", "00000080 00000000", "01000080 ffff7f7f", "cdcccc3d cdcccc3e"],
}
CASES = [(name, text) for name, texts in BOUNDS.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_bounds_of_clamp_survive_bit_for_bit(
    bindings: Bindings, context: Any, name: str, text: str
) -> None:
    low, high = (bytes.fromhex(part) for part in text.split())
    made = graph("x", "y", [tensor("x", name), tensor("y", name)],
                 [op("CLAMP", "x", "y", min_val=low, max_val=high, nan_mode=NAN)])  # fmt: skip
    assert verify(made) == []
    module = write(made, bindings, context)
    found = read(module).main.operators[0].attributes
    assert found["min_val"] == low.ljust(8, b"\0")
    assert found["max_val"] == high.ljust(8, b"\0")
    text = str(module)
    again = read(bindings.ir.Module.parse(text, context)).main.operators[0].attributes
    assert again == found


def both_ways(bindings: Bindings, context: Any, made: Graph) -> None:
    assert verify(made) == []
    assert compare(made, read(write(made, bindings, context)), names=False) is None


@pytest.mark.parametrize("mode", NanPropagationMode)
def test_every_nan_mode_survives(
    bindings: Bindings, context: Any, mode: NanPropagationMode
) -> None:
    values = [tensor("x"), tensor("y", shape=(1, 3))]
    made = graph("x", "y", values, [op("REDUCE_MAX", "x", "y", axis=0, nan_mode=mode)])
    both_ways(bindings, context, made)


def test_an_identity_survives(bindings: Bindings, context: Any) -> None:
    made = graph("x", "y", [tensor("x"), tensor("y")], [op("IDENTITY", "x", "y")])
    both_ways(bindings, context, made)


@pytest.mark.parametrize("mode", ResizeMode)
def test_every_resize_mode_survives(bindings: Bindings, context: Any, mode: ResizeMode) -> None:
    from unit.building import shape

    values: list[Tensor | ShapeValue] = [
        tensor("x", "INT8", (1, 3, 3, 2)),
        shape("s", 4, 2, 4, 2),
        shape("o", 0, 0),
        shape("b", 0, 0),
    ]
    kind = "INT8" if mode is ResizeMode.NEAREST else "INT32"
    values.append(tensor("y", kind, (1, 5, 5, 2)))
    constants = [op("CONST_SHAPE", "", name) for name in "sob"]
    both_ways(
        bindings,
        context,
        graph("x", "y", values, [*constants, op("RESIZE", "x s o b", "y", mode=mode)]),
    )


@pytest.mark.parametrize("mode", RoundingMode)
@pytest.mark.parametrize("flags", [(True, False, False), (True, True, False), (True, False, True)])
def test_every_attribute_of_rescale_survives(
    bindings: Bindings, context: Any, mode: RoundingMode, flags: Any
) -> None:
    scale32, per_channel, unsigned = flags
    size = 3 if per_channel else 1
    values = [
        tensor("x", "INT32", (2, 3)),
        tensor("m", "INT32", (size,), (1 << 30).to_bytes(4, "little") * size),
        tensor("s", "INT8", (size,), b"\x1e" * size),
        tensor("zi", "INT32", (1,), bytes(4)),
        tensor("zo", "INT8", (1,), b"\0"),
        tensor("y", "INT8", (2, 3)),
    ]
    operators = [op("CONST", "", name) for name in ("m", "s", "zi", "zo")]
    unsigned_flags = {"input_unsigned": False, "output_unsigned": unsigned}
    operators.append(
        op("RESCALE", "x m s zi zo", "y", scale32=scale32, rounding_mode=mode,
           per_channel=per_channel, **unsigned_flags)
    )  # fmt: skip
    both_ways(bindings, context, graph("x", "y", values, operators))


@pytest.mark.parametrize("raw", [b"", b"\0", b'\xff\xfe\0"\\\n', bytes(range(256))])
def test_the_bytes_of_a_custom_operator_survive(
    bindings: Bindings, context: Any, raw: bytes
) -> None:
    operator = op(
        "CUSTOM", "x", "y", operator_name='né "q"', domain_name="", implementation_attrs=raw
    )
    made = graph("x", "y", [tensor("x"), tensor("y", shape=None)], [operator])
    both_ways(bindings, context, made)


def test_a_custom_operator_may_have_no_operands_and_no_results(
    bindings: Bindings, context: Any
) -> None:
    operator = op("CUSTOM", "", "", operator_name="f", domain_name="d", implementation_attrs=b"")
    both_ways(bindings, context, graph("", "", [], [operator]))


@pytest.mark.parametrize("accumulator", ["INT32", "FP16", "FP32"])
@pytest.mark.parametrize("local_bound", [False, True])
def test_the_attributes_of_convolutions_survive(
    bindings: Bindings, context: Any, accumulator: str, local_bound: bool
) -> None:
    kind = "INT8" if accumulator == "INT32" else "FP16"
    out = "INT32" if accumulator == "INT32" else "FP16"
    zero = bytes(1 if kind == "INT8" else 2)
    values = [
        tensor("x", kind, (1, 4, 4, 2)), tensor("w", kind, (3, 2, 2, 2)), tensor("b", out, (3,)),
        tensor("zx", kind, (1,), zero), tensor("zw", kind, (1,), zero), tensor("y", out, (1, 4, 4, 3)),
    ]  # fmt: skip
    operator = op("CONV2D", "x w b zx zw", "y", pad=(0, 1, 0, 1), stride=(1, 1), dilation=(1, 1),
                  local_bound=local_bound, acc_type=dtype(accumulator))  # fmt: skip
    made = graph("x w b", "y", values, [op("CONST", "", "zx"), op("CONST", "", "zw"), operator])
    both_ways(bindings, context, made)


def test_permutations_of_every_rank_survive(bindings: Bindings, context: Any) -> None:
    for rank in range(1, 7):
        perms = tuple(range(rank))[::-1]
        values = [tensor("x", shape=(2,) * rank), tensor("y", shape=(2,) * rank)]
        both_ways(
            bindings, context, graph("x", "y", values, [op("TRANSPOSE", "x", "y", perms=perms)])
        )


def test_an_attribute_without_a_field_is_dropped_silently_only_if_discardable(
    parse: Any,
) -> None:
    text = (
        "func.func @f(%a: tensor<2xf32>) {\n"
        '%0 = "tosa.exp"(%a) {mine = 7 : i32} : (tensor<2xf32>) -> tensor<2xf32>\nreturn\n}\n'
    )
    (operator,) = read(parse(text)).main.operators
    assert operator.attributes == {}
