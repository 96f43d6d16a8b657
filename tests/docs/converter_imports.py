"""The frameworks that modules of converters import, in the child process only."""

from __future__ import annotations

_TORCH, _ONNX = {"torch"}, {"onnx"}
#: Modules of converters -> the frameworks that they import, in the child process only.
CONVERTERS: dict[str, set[str]] = {
    "jax.gather_bounds": {"litert_converter"},
    "jax.tflite_model": {"jax", "litert_converter"},
    "torch.litert": _TORCH | {"litert_torch"},
    "torch.cut": {"torch_mlir"},
    "torch.decompositions": _TORCH | {"torch_mlir"},
    "torch.archive": _TORCH | {"sympy"},
    "torch.dialect": {"torch_mlir"},
    "torch.elementwise": _TORCH,
    "torch.export": _TORCH,
    "torch.facts": _TORCH,
    "torch.import_program": _TORCH | {"torch_mlir"},
    "torch.indexing": _TORCH,
    "torch.integers": _TORCH,
    "torch.convert": _TORCH,
    "torch.signature": _TORCH,
    "torch.unsigned": _TORCH,
    "torch.windows": _TORCH,
    "torch.executorch_graph": _TORCH,
    "torch.executorch": _TORCH | {"executorch"},
    "onnx.expand": _ONNX,
    "onnx.fold": _ONNX | {"onnxruntime"},
    "onnx.functions": _ONNX,
    "onnx.import_model": _ONNX | {"torch_mlir"},
    "onnx.convert": _ONNX | {"google", "torch_mlir"},
    "onnx.versions": _ONNX,
    "onnx.weights": _ONNX,
    "onnx.expansions.expansion": _ONNX,
    "onnx.expansions.grid_sample": _ONNX,
    "onnx.expansions.quantized": _ONNX,
    "onnx.expansions.regions": _ONNX,
}
