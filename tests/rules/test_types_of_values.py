"""The types of values, as the rules of operators see them."""

from __future__ import annotations

from unit.building import block, op, shape, tensor

from tosa_convert.graph import BlockScale, Tensor, dtype
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.rules.values import ShapeType, TensorType, TypeTable


def test_types_of_plain_tensors_are_those_of_of_tensor() -> None:
    table = TypeTable()
    values = [tensor("x"), tensor("y", "INT8", None), tensor("z", shape=())]
    types = table.of_block(block("x y z", "", values, [], "main"))
    again = table.of_block(block("x y z", "", values, [], "main"))
    for value in values:
        assert types[value.name] is table.of_tensor(value, with_data=False) is again[value.name]


def test_equal_types_are_one_object_and_different_types_are_not() -> None:
    table = TypeTable()
    values = [tensor("a"), tensor("b"), tensor("c", shape=(2, 4)), tensor("d", "INT32")]
    a, b, c, d = table.of_block(block("a b c d", "", values, [], "main")).values()
    assert a is b
    assert len({a, c, d}) == 3


def test_data_is_in_the_type_only_where_an_operator_needs_it_at_compile_time() -> None:
    zero = tensor("zp", "INT8", (1,), b"\0")
    other = tensor("c", "INT8", (1,), b"\0")
    operators = [op("NEGATE", "x zp zp", "y")]
    values = [tensor("x", "INT8"), tensor("y", "INT8"), zero, other]
    types = TypeTable().of_block(block("x", "y", values, operators, "main"))
    data, plain = types["zp"], types["c"]
    assert isinstance(data, TensorType)
    assert isinstance(plain, TensorType)
    assert data.data is not None
    assert plain.data is None


def test_equal_compile_time_constants_share_a_type_and_different_ones_do_not() -> None:
    values = [
        tensor(name, "INT8", (1,), data)
        for name, data in zip("pqr", (b"\1", b"\1", b"\2"), strict=True)
    ]
    operators = [op("NEGATE", "x p q", "y"), op("NEGATE", "x r r", "z")]
    values += [tensor(name, "INT8") for name in "xyz"]
    types = TypeTable().of_block(block("x", "y", values, operators, "main"))
    assert types["p"] is types["q"]
    assert types["p"] is not types["r"]


def test_a_scale_is_part_of_the_type() -> None:
    scaled = Tensor("s", dtype("FP8E4M3"), (32,))
    scaled.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    types = TypeTable().of_block(
        block("s t", "", [scaled, tensor("t", "FP8E4M3", (32,))], [], "main")
    )
    assert types["s"] is not types["t"]
    assert str(types["s"]) == "FP8E4M3 [32] in blocks of 32"


def test_a_shape_has_its_values_where_they_are_constant() -> None:
    known, computed = shape("a", 2, 3), shape("b", 1)
    computed.data = None
    types = TypeTable().of_block(block("", "", [known, computed], [], "main"))
    assert isinstance(types["a"], ShapeType)
    assert types["a"].sizes == (2, 3)
    assert isinstance(types["b"], ShapeType)
    assert types["b"].sizes == (None,)
