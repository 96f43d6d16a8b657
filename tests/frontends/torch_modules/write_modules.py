"""Write the files of this folder: modules of one network, by the torch-mlir that runs this.

    pip install torch torch-mlir onnx onnxruntime && python write_modules.py

raw.mlir is what torch-mlir's importer makes of a program of torch.export, backend.mlirbc is the backend
form in bytecode, and onnx.mlir is what its importer of ONNX writes; torch.npy and onnx.npy have the
results of torch and of onnxruntime for `arguments()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
SHAPE = (2, 3, 6, 6)


def arguments() -> list[Any]:
    """Draw the arguments."""
    return [np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)]


def write_torch() -> None:
    """Write the modules of a network of torch."""
    import torch
    from torch_mlir import fx

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.GELU(), torch.nn.MaxPool2d(2)]
    layers += [torch.nn.Flatten(), torch.nn.Linear(36, 5), torch.nn.Softmax(-1)]
    network = torch.nn.Sequential(*layers).eval()
    (array,) = arguments()
    program = torch.export.export(network, (torch.from_numpy(array),))
    raw = fx.export_and_import(program, output_type="raw", func_name="network")
    (FOLDER / "raw.mlir").write_text(str(raw), encoding="utf-8")
    backend = fx.export_and_import(program, output_type="torch")
    backend.operation.write_bytecode(str(FOLDER / "backend.mlirbc"))
    np.save(FOLDER / "torch.npy", network(torch.from_numpy(array)).detach().numpy())


def write_onnx() -> None:
    """Write the module of a network of ONNX."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras import onnx_importer

    random = np.random.default_rng(1)
    kernel = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("HardSwish", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("LogSoftmax", ["d"], ["scores"], axis=1),
    ]
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (2, 4))]
    weights = [numpy_helper.from_array(kernel, "kernel")]
    graph = helper.make_graph(nodes, "network", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    np.save(FOLDER / "onnx.npy", session.run(None, {"image": arguments()[0]})[0])
    context = ir.Context()
    torch_dialect.register_dialect(context)
    info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(model))
    module = info.create_module(context=context)
    importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
    importer.import_all()
    (FOLDER / "onnx.mlir").write_text(str(module), encoding="utf-8")


if __name__ == "__main__":
    write_torch()
    write_onnx()
