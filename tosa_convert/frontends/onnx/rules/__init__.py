"""Tables of ONNX's operators: what lowers each."""
