"""ONNX models, by a table of operators."""
