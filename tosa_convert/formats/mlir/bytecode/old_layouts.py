"""Layouts of native properties that operations of older releases have.

Imported only when the layout of today does not fit. Source: blobs that released packages wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.formats.mlir.bytecode.attributes import Attribute, ScalarAttr
from tosa_convert.formats.mlir.bytecode.properties import Layout, Properties, Slot

#: Operation -> layouts, separated by bars. "?" marks an optional attribute.
_TEXT: Final = {
    "argmax reduce_max reduce_min reduce_prod": "axis",
    "avg_pool2d": "acc_type kernel pad quantization_info? stride"
    " | acc_type input_zp? kernel output_zp? pad stride",
    "max_pool2d": "kernel pad stride",
    "conv2d conv3d depthwise_conv2d": "dilation pad quantization_info? stride"
    " | dilation local_bound? pad quantization_info? stride"
    " | acc_type dilation local_bound? pad quantization_info? stride",
    "transpose_conv2d": "out_pad out_shape quantization_info? stride"
    " | local_bound? out_pad out_shape quantization_info? stride"
    " | acc_type local_bound? out_pad out_shape quantization_info? stride"
    " | acc_type local_bound? out_pad out_shape stride",
    "fully_connected": "quantization_info?",
    "matmul": "quantization_info? | a_zp? b_zp?",
    "negate": "quantization_info? | input1_zp? output_zp?",
    "pad": "quantization_info? | input_zp?",
    "clamp": "max_fp max_int min_fp min_int | max_fp max_int min_fp min_int nan_mode?",
    "maximum minimum transpose rfft2d div int_div": "",
    "mul": "shift",
    "reshape": "new_shape",
    "tile": "multiples",
    "slice": "size start",
    "resize": "border mode offset scale",
    "rescale": "double_round input_zp multiplier output_zp per_channel scale32 shift"
    " | double_round input_unsigned? input_zp multiplier output_unsigned? output_zp per_channel"
    " scale32 shift",
    "fft2d": "inverse",
    "variable": "initial_value? sym_name type",
    "variable.read variable.write": "name",
}

_KINDS: Final = {
    "acc_type": "dtype",
    "quantization_info": "zero points",
    "initial_value": "elements",
    "sym_name": "string",
    "name": "string",
    "type": "type",
    "mode": "enum",
    "nan_mode": "enum",
    **dict.fromkeys(
        (
            *("kernel", "pad", "stride", "dilation", "out_pad", "out_shape", "new_shape"),
            *("multiples", "size", "start", "border", "offset", "scale", "multiplier"),
        ),
        "i32s",
    ),
    **dict.fromkeys(
        (
            *("local_bound", "double_round", "per_channel", "scale32", "inverse"),
            *("input_unsigned", "output_unsigned"),
        ),
        "bool",
    ),
    **dict.fromkeys(
        (
            *("axis", "input_zp", "output_zp", "a_zp", "b_zp", "input1_zp"),
            *("max_int", "min_int", "max_fp", "min_fp"),
        ),
        "i32",
    ),
}


def _layout(operation: str, text: str) -> Layout:
    slots = []
    for word in text.split():
        name = word.rstrip("?")
        kind = _KINDS.get(name) or ("i32s" if operation == "rescale" else "i32")  # shift
        slots.append(Slot(name, kind, name != word))
    return tuple(slots)


#: Operation -> the layouts of its blob in older releases.
OLD_LAYOUTS: Final[dict[str, tuple[Layout, ...]]] = {
    f"tosa.{operation}": tuple(_layout(operation, layout) for layout in text.split("|"))
    for operations, text in _TEXT.items()
    for operation in operations.split()
}

#: The attributes of tosa.custom up to October 2023 -> those that have their places today.
_CUSTOM: Final = {
    "domain_name": "config",
    "implementation_attrs": "identifier",
    "operator_name": "implementation_attrs",
}


def custom_names(
    found: Properties, dating: Iterable[tuple[str, Attribute]], where: str, is_new: bool | None
) -> Properties:
    """Return the attributes of a tosa.custom whose names were changed in the year of the file.

    Three strings in the order of their names: the blob does not tell which. Other operations of the
    file do: the shift of a multiplication became i8 with the new names, and an axis was i64 only with
    the old ones.

    Args:
        found: the attributes by the names of today.
        dating: attributes of other operations, with their names.
        where: the file, for messages.
        is_new: whether the program has the names of today, if it is known.

    Raises:
        TosaConvertError: "cannot-upgrade" if the file does not tell.
    """
    if is_new is not None:
        return found if is_new else {_CUSTOM[today]: index for today, index in found.items()}
    for name, attribute in dating:
        type_ = attribute.type if isinstance(attribute, ScalarAttr) else None
        if (name, type_) == ("shift", "i8"):
            return found
        if (name, type_) in (("shift", "i32"), ("axis", "i64")):
            return {_CUSTOM[today]: index for today, index in found.items()}
    raise fail(
        "cannot-upgrade",
        where or "'tosa.custom'",
        "'tosa.custom' has three strings, and the file does not tell which is the operator's name: "
        "MLIR changed their order in November 2023",
        'say the month of the MLIR that wrote it, dialect="2023-10", or convert the program from text, '
        "in which they have names",
    )
