"""What the row of an operator says, as texts that `opset.py` reads."""

from __future__ import annotations

from tosa_convert.records import NamedTuple


class Row(NamedTuple):
    """An operator, as texts.

    name: the name in TOSA.
    family: that of the operators that have similar rules, and that pictures show alike.
    operands: their names, in order, and after "->" those of the results, unless that is one `output`.
        `x` stands for exactly one, `x?` for at most one, and `x*` for any number.
        After a colon: `shape`, a !tosa.shape; `const`, a tensor whose elements verifiers and compilers
        read; `index`, `shift`, `divisor` or `positive`, the numbers that it is to hold. After "=":
        the number that stands for an operand that is left out.
    types: the element types that it takes together: forms, each with its lines, separated by ";".
        A form, such as `T T -> T`, has the types of the tensors in order, without those of
        !tosa.shape. `T`, `U` and `A` stand for types, `Z(T)` for the type of T's zero point, `...`
        for any further values, and `name=A` for an attribute that belongs to the types.
        A line, such as `1.1 INT+INT16 | i8:i32 i16:i64`, says what types need: the version, if it is
        not the operator's; one profile, or one of several (`INT/FP`); extensions. Types are those of
        T, U and A, in the order in which the form names them, with a colon between them, a comma
        between alternatives and a blank between rows. What a type needs by itself is not repeated:
        BF16, INT4, INT48, INT64, the FP8 and the MX types need extensions.
    attributes: their names, in the order of the schema; after a colon the length of a list.
    accuracy: how floating-point results may differ from exact ones, if the operands are exact:
        "exact"; "operand", as the operand whose elements are moved; "none", no rule of TOSA; the name
        of a formula of golden/accuracy; or a bound such as "ulp 2", and after ";" others for single
        types. It begins with "inexact:" if implementations compute different results of equal operands.
    multiply_accumulates: the dimensions of the result and of the two operands that are multiplied. A
        letter stands for the same size wherever it is, (CM) for a product, "." for what does not
        count. The number is the product of all letters. Or, after "?", why the number is not known.
    elementwise: how many operands, from the first one on, are broadcast to the shape of the result;
        by default all but constants in the families "elementwise" and "activation", and none in others.
    is_step: whether a floating-point result is the same for near operands, and jumps between them.
    commutes: whether the first two operands may be exchanged.
    since: the TOSA version and the state of the dialect that added it; "" for 1.0 and the first state.
    old_names: names in older states of the dialect, oldest first, each with the state that ended it.
    encoded_as: the operator whose code a file has; different attribute tables tell the two apart.
    """

    name: str
    family: str
    operands: str
    types: str
    attributes: str = ""
    accuracy: str = "exact"
    multiply_accumulates: str = ""
    elementwise: int | None = None
    is_step: bool = False
    commutes: bool = False
    since: str = ""
    old_names: str = ""
    encoded_as: str = ""
