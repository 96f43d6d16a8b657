# SPDX-License-Identifier: Apache-2.0
"""Build a small ONNX model, convert it, and compare the program with onnxruntime.

    python convert_onnx_resize.py [FILE]   # default: resize.tosa

The model enlarges an image by cubic interpolation, which TOSA does not have. The converter multiplies
by constant matrices instead. It needs: pip install '.[onnx,refmodel]'
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import tosa_convert as tc


def write_model(path: Path) -> None:
    """Write the ONNX model: an image of 6 x 6 in, one of 9 x 12 out."""
    scales = numpy_helper.from_array(np.array([1, 1, 1.5, 2], np.float32), "scales")
    node = helper.make_node("Resize", ["image", "", "scales"], ["large"], name="up", mode="cubic")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 6, 6])
    large = helper.make_tensor_value_info("large", TensorProto.FLOAT, [1, 3, 9, 12])
    graph = helper.make_graph([node], "resize", [image], [large], [scales])
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else "resize.tosa"
    image = np.random.default_rng(2026).random((1, 3, 6, 6), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resize.onnx"
        write_model(path)
        tc.save(tc.frontends.from_onnx(path), target)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        expected = np.asarray(session.run(None, {"image": image})[0])
    found = tc.run(target, {"image": image}).outputs["large"]
    print(f"largest error {np.abs(found - expected).max():.1g}")


if __name__ == "__main__":
    main()
