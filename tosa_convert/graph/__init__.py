"""The hub: what a TOSA program is, independent of file formats. Nothing here imports an adapter."""

from tosa_convert.graph.compare import Difference, compare
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DTYPES, DType, dtype
from tosa_convert.graph.model import (
    DYNAMIC,
    Block,
    BlockScale,
    Graph,
    Operator,
    Region,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    Version,
)
from tosa_convert.graph.opset import OPERATORS, OperatorSpec, operator
from tosa_convert.graph.verify import verify
from tosa_convert.graph.versions import lowest_version

__all__ = [
    "DTYPES",
    "DYNAMIC",
    "OPERATORS",
    "Block",
    "BlockScale",
    "Constant",
    "DType",
    "Difference",
    "Graph",
    "Operator",
    "OperatorSpec",
    "Region",
    "ShapeValue",
    "SoftwareVersion",
    "Tensor",
    "Version",
    "compare",
    "dtype",
    "lowest_version",
    "operator",
    "verify",
]
