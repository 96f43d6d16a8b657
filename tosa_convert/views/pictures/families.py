"""The families of operators that pictures tell apart by colour."""

from __future__ import annotations

from typing import Final

#: Family -> its operators. Those in no row are elementwise.
_FAMILIES: Final[dict[str, str]] = {
    "convolution": "CONV2D CONV3D DEPTHWISE_CONV2D TRANSPOSE_CONV2D MATMUL MATMUL_T FFT2D RFFT2D "
    "CONV2D_BLOCK_SCALED MATMUL_T_BLOCK_SCALED",
    "reduction": "ARGMAX AVG_POOL2D MAX_POOL2D REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN "
    "REDUCE_PRODUCT REDUCE_SUM AVG_POOL2D_ADAPTIVE MAX_POOL2D_ADAPTIVE",
    "activation": "CLAMP ERF SIGMOID TANH TABLE",
    "conversion": "CAST RESCALE CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED",
    "layout": "CONCAT PAD RESHAPE REVERSE SLICE TILE TRANSPOSE GATHER SCATTER RESIZE IDENTITY "
    "ROW_GATHER RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED",
    "control": "COND_IF WHILE_LOOP CUSTOM VARIABLE VARIABLE_READ VARIABLE_WRITE",
    "constant": "CONST CONST_SHAPE",
}
_BY_NAME: Final = {name: family for family, names in _FAMILIES.items() for name in names.split()}

FAMILIES: Final = (*_FAMILIES, "elementwise", "shape", "input", "output")


def family_of(name: str) -> str:
    """Return the family of an operator, by its name."""
    if (name.endswith("_SHAPE") and name not in _BY_NAME) or name == "DIM":
        return "shape"
    return _BY_NAME.get(name, "elementwise")
