# SPDX-License-Identifier: Apache-2.0
"""Build the example network: a small torch CNN, lowered to a TOSA module.

    pip install torch==2.13.0 torch-mlir numpy
    python make_digits_cnn.py [DIRECTORY]   # default: the directory of this script

Writes digits_cnn.mlirbc (MLIR bytecode), digits_cnn_input.npy and digits_cnn_output.npy (torch's
own answer for that input). The network has the shape of a digit classifier but is not trained: its
weights come from a fixed seed, so that the same versions make the same bytes again.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch_mlir import fx, ir
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

NAME = "digits_cnn"
SEED = 2026


class DigitsCnn(nn.Module):
    """1x1x16x16 grey image -> 1x10 logits, through three convolutions, one of them residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(1, 16)
        self.block = conv_bn(16, 16)
        self.head = conv_bn(16, 24)
        self.classify = nn.Linear(24 * 4 * 4, 10)

    def forward(self, image: Tensor) -> Tensor:
        # One operator a line: the line is what the operator's location in the MLIR module says.
        x = self.stem(image)
        x = relu(x)
        x = max_pool2d(x, 2)
        y = self.block(x)
        x = x + y
        x = relu(x)
        x = self.head(x)
        x = relu(x)
        x = max_pool2d(x, 2)
        x = x.flatten(1)
        logits: Tensor = self.classify(x)
        return logits


def conv_bn(channels_in: int, channels_out: int) -> nn.Conv2d:
    """Return a 3x3 convolution with a batch norm folded into it, as deployed networks have it."""
    conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False).eval()
    norm = nn.BatchNorm2d(channels_out).eval()
    # A fresh batch norm is the identity; give it statistics, or there is nothing to fold.
    for name, low, high in (
        ("weight", 0.5, 1.5),
        ("bias", -0.2, 0.2),
        ("running_mean", -0.1, 0.1),
        ("running_var", 0.1, 0.3),
    ):
        nn.init.uniform_(norm.state_dict()[name], low, high)
    return fuse_conv_bn_eval(conv, norm)


def lower_to_tosa(network: nn.Module, image: Tensor) -> ir.Module:
    """Return the network as a verified TOSA module, with named argument and result."""
    program = torch.export.export(network, (image,)).run_decompositions(get_decomposition_table())
    for node in program.graph.nodes:
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = own_frames(node.meta["stack_trace"])
    # The program is decomposed already; an empty table keeps the importer from doing it again.
    module = fx.export_and_import(
        program, output_type="tosa", func_name=NAME, decomposition_table={}
    )
    with module.context:
        (function,) = module.body.operations
        function.attributes["arg_attrs"] = tensor_names("image")
        function.attributes["res_attrs"] = tensor_names("logits")
    module.operation.verify()  # raises ir.MLIRError
    return module


def own_frames(stack_trace: str) -> str:
    """Keep only this script's frames, by bare file name.

    The importer turns every frame into an MLIR location. Full paths, and torch's own lines, would
    make the bytes depend on the machine.
    """
    script = Path(__file__).resolve()
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', stack_trace)
    return "".join(
        f'  File "{script.name}", line {line}, in {function}\n'
        for path, line, function in frames
        if Path(path).resolve() == script
    )


def tensor_names(*names: str) -> ir.ArrayAttr:
    """Return the attribute by which TOSA arguments or results keep their names, one name each."""
    return ir.ArrayAttr.get(
        [ir.DictAttr.get({"tosa.tensor_name": ir.StringAttr.get(name)}) for name in names]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the digits_cnn example.")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(__file__).resolve().parent)
    directory: Path = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    network = DigitsCnn().eval()
    image = torch.rand(1, 1, 16, 16)
    with torch.inference_mode():
        logits = network(image)
    module = lower_to_tosa(network, image)

    with (directory / f"{NAME}.mlirbc").open("wb") as file:
        module.operation.write_bytecode(file)
    np.save(directory / f"{NAME}_input.npy", image.numpy())
    np.save(directory / f"{NAME}_output.npy", logits.numpy())


if __name__ == "__main__":
    main()
