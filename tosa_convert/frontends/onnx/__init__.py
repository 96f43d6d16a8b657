"""ONNX models, by torch-mlir."""
