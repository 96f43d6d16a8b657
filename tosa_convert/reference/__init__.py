"""What each operator of TOSA computes, in numpy: a function of arrays, and `run` for a whole program.

A function has the operands and attributes of the operator's row as its arguments, and `out_type`, the
element type of the result where the operands leave a choice. Operands are arrays of numpy or ml_dtypes,
or numbers; block-scaled ones are `Scaled(data, scale)`. Zero points, padding and the like have defaults.

Example:
    >>> import numpy as np
    >>> from tosa_convert import reference
    >>> x = np.array([[1.5, -2.0]], np.float32)
    >>> reference.cast(reference.add(x, 1.0), out_type="INT8")
    array([[ 2, -1]], dtype=int8)
"""

import importlib
from typing import Any

from tosa_convert.graph.opset import OPERATORS

_LIBRARY = "tosa_convert.golden.running.operator_functions"
_OPERATORS = {
    row.name.lower(): row for row in OPERATORS if row.family not in ("constant", "control")
}
__all__ = ["GraphStatus", "Scaled", "run", *_OPERATORS]


def __getattr__(name: str) -> Any:
    if name not in __all__:  # the modules of this package are imported by their own names
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    library = importlib.import_module(_LIBRARY)
    found = _OPERATORS.get(name)
    value = getattr(library, name) if found is None else library.function_of(found)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
