"""Constants from numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DTYPES, DType, dtype
from tosa_convert.graph.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt


_INT48: Final = dtype("INT48")
_BOOL: Final = dtype("BOOL")
#: Element types whose arrays hold codes: numpy and ml_dtypes have no type of their own for them.
_CODES: Final = frozenset({"MXINT8"})


def dtype_of_array(array: npt.NDArray[Any]) -> DType | None:
    """Return the element type that an array's own type stands for; None if TOSA does not have it.

    Example:
        >>> dtype_of_array(np.zeros(2, np.float32)), dtype_of_array(np.zeros(2, np.float64))
        (FP32, None)
    """
    return _BY_NUMPY.get(array.dtype.name)


def constant_of(array: npt.NDArray[Any], element: DType) -> Constant:
    """Convert an array's elements to constant data of an element type, in row-major order.

    It is padded as `tosa-opt` pads it.

    Example:
        >>> constant_of(np.array([1, -2, 3]), dtype("INT4"))
        Constant(3 x INT4, unpacked)
        >>> constant_of(np.array([200]), dtype("INT8"))
        Traceback (most recent call last):
        ValueError: 200 does not fit INT8
    """
    data = _data_of(np.ascontiguousarray(array).reshape(-1), element)
    data.padding = data.usual_padding
    return data


def _data_of(flat: npt.NDArray[Any], element: DType) -> Constant:
    if element.is_float:
        if flat.dtype != element.numpy:
            flat = _rounded(flat.astype(np.float64), element)
    elif element is _BOOL:
        if flat.dtype != np.bool_ and not np.isin(flat, (0, 1)).all():
            raise ValueError("BOOL holds only true and false")
        flat = flat.astype(np.bool_)
    else:
        _refuse_values_beyond(flat, element)
    if element is _INT48:
        octets = flat.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :6]
        return Constant(element, flat.size, np.ascontiguousarray(octets).reshape(-1))
    if element.is_packed:
        codes = flat.astype(np.int8) if not element.is_float else flat
        mask = (1 << element.bits) - 1
        return Constant(element, flat.size, codes.view(np.uint8) & mask, unpacked=True)
    if flat.dtype != element.numpy:
        flat = flat.astype(element.numpy)
    little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
    return Constant(element, flat.size, little.view(np.uint8))


def _rounded(flat: npt.NDArray[Any], element: DType) -> npt.NDArray[Any]:
    """Round values to the nearest elements. A finite value is not rounded to infinity or a far limit."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = flat.astype(element.numpy)
        back = rounded.astype(np.float64)
        # Types without infinity round what is too large to NaN or to their largest element.
        largest = np.abs(np.float64(1e300).astype(element.numpy).astype(np.float64))
        wrong = (np.isnan(flat) != np.isnan(back)) | (np.isinf(flat) != np.isinf(back))
        if np.isfinite(largest):
            wrong |= np.abs(flat) > largest
    if wrong.any():
        raise ValueError(f"{flat[wrong.argmax()].item()} does not fit {element}")
    return rounded


def _refuse_values_beyond(flat: npt.NDArray[Any], element: DType) -> None:
    if flat.dtype.kind == "i" and 8 * flat.dtype.itemsize <= element.bits:
        return
    high = (1 << element.bits - 1) - 1
    low = -high - 1
    is_integer = np.issubdtype(flat.dtype, np.integer) or flat.dtype == object
    wide = flat if is_integer else flat.astype(np.float64)
    outside = (wide < low) | (wide > high)
    if wide.dtype == np.float64:
        outside |= wide != np.trunc(wide)
    if outside.any():
        (value,) = flat[[outside.argmax()]].tolist()
        raise ValueError(f"{value} does not fit {element}")


_BY_NUMPY: Final = {
    row.numpy_name: row for row in reversed(DTYPES) if row.name not in {"INT48", *_CODES}
}
