"""The frameworks that modules of converters import, in the child process only."""

from __future__ import annotations

_TORCH, _ONNX = {"torch"}, {"onnx"}
#: Modules of converters -> the frameworks that they import, in the child process only.
CONVERTERS: dict[str, set[str]] = {
    "jax.gather_bounds": {"litert_converter"},
    "jax.tflite_model": {"jax", "litert_converter"},
    "litert_torch_program": _TORCH | {"litert_torch"},
    "torch_cut": {"torch_mlir"},
    "torch_decompositions": _TORCH | {"torch_mlir"},
    "torch_archive": _TORCH | {"sympy"},
    "torch_dialect": {"torch_mlir"},
    "torch_elementwise": _TORCH,
    "torch_export": _TORCH,
    "torch_facts": _TORCH,
    "torch_import": _TORCH | {"torch_mlir"},
    "torch_indexing": _TORCH,
    "torch_integers": _TORCH,
    "torch_program": _TORCH,
    "torch_signature": _TORCH,
    "torch_unsigned": _TORCH,
    "torch_windows": _TORCH,
    "executorch_graph": _TORCH,
    "executorch_program": _TORCH | {"executorch"},
    "onnx_expand": _ONNX,
    "onnx_fold": _ONNX | {"onnxruntime"},
    "onnx_functions": _ONNX,
    "onnx_import": _ONNX | {"torch_mlir"},
    "onnx_model": _ONNX | {"google", "torch_mlir"},
    "onnx_versions": _ONNX,
    "onnx_weights": _ONNX,
    "onnx_expansions.expansion": _ONNX,
    "onnx_expansions.grid_sample": _ONNX,
    "onnx_expansions.quantized": _ONNX,
    "onnx_expansions.regions": _ONNX,
}
