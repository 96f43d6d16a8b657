"""Hints of errors: the pass that lowers a program of another dialect to TOSA."""

from __future__ import annotations

from typing import Final

_FIRST: Final = "lower it to TOSA before exporting"

#: Dialects above TOSA -> what lowers them to TOSA. Passes as their projects document them.
_LOWERING: Final = {
    "stablehlo": "stablehlo-opt --stablehlo-prepare-for-tosa --stablehlo-legalize-to-tosa",
    "chlo": "stablehlo-opt --chlo-legalize-to-stablehlo --stablehlo-legalize-to-tosa",
    "vhlo": "stablehlo-translate --deserialize, then stablehlo-opt --stablehlo-legalize-to-tosa",
    "mhlo": "first to StableHLO with mlir-hlo-opt --hlo-legalize-to-stablehlo",
    "torch": (
        "torch-mlir-opt --torch-backend-to-tosa-backend-pipeline, or "
        'torch_mlir.fx.export_and_import(..., output_type="tosa")'
    ),
    "tfl": "tf-opt --tfl-to-tosa-pipeline, or the Python package tosa-converter-for-tflite",
    "tf": "tf-opt --tf-to-tosa-pipeline",
    "onnx": "onnx-mlir-opt --shape-inference --convert-onnx-to-tosa",
}

#: Dialects that TOSA is lowered to; no pass leads back.
_BELOW: Final = frozenset(
    ("affine", "bufferization", "cf", "gpu", "linalg", "llvm", "math", "memref", "scf", "vector")
)


def lowering_hint(operator: str) -> str:
    """Return the hint for an operator of another dialect.

    Args:
        operator: Its name in MLIR, or the name of its dialect.

    Example:
        >>> lowering_hint("tf.Relu")
        'lower it to TOSA before exporting: tf-opt --tf-to-tosa-pipeline'
    """
    dialect = operator.partition(".")[0]
    if operator == "func.call":
        return "TOSA has no calls: run the pass `inline` before exporting"
    if dialect in _LOWERING:
        return f"{_FIRST}: {_LOWERING[dialect]}"
    if dialect in _BELOW:
        return f"{_FIRST}; if TOSA was lowered to {dialect}, export before that pass"
    return _FIRST
