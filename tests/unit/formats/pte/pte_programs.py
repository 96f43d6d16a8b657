"""Write the programs of the `.pte` files of this folder and of the examples, by ExecuTorch 1.5.1.

    python tests/unit/formats/pte/pte_programs.py

writes the files again and what torch computes for inputs of ones. It needs `pip install executorch
torchao ethos-u-vela ai-ml-sdk-model-converter tosa-tools`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
CLASSIFIER: Final = FOLDER.parents[3] / "examples" / "executorch_classifier.pte"
#: Inputs of both programs.
SHAPE: Final = (1, 2, 4, 4)


def main() -> None:
    """Write the files."""
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import (
        EthosUQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.vgf import VgfCompileSpec, VgfPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    def sorts(module: Any, x: Any) -> Any:
        """Compute two parts with an operator between them that no delegate takes."""
        return torch.relu(torch.sort(torch.exp(x) + x).values * x)

    def write(model: torch.nn.Module, partitioner: Any, path: Path) -> None:
        program = torch.export.export(model, (torch.ones(SHAPE),))
        lowered = to_edge_transform_and_lower(program, partitioner=[partitioner])
        path.write_bytes(lowered.to_executorch().buffer)

    spec = EthosUCompileSpec("ethos-u55-128")

    def quantised(model: torch.nn.Module) -> Any:
        quantizer = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())
        exported = torch.export.export(model.eval(), (torch.ones(SHAPE),)).module()
        prepared = prepare_pt2e(exported, quantizer)
        prepared(torch.ones(SHAPE))
        return convert_pt2e(prepared)

    torch.manual_seed(0)
    layers = torch.nn
    whole = layers.Sequential(
        layers.Conv2d(2, 2, 3, padding=1), layers.ReLU(), layers.Flatten(), layers.Linear(32, 3)
    )
    parted = type("Parted", (layers.Module,), {"forward": sorts})()
    write(whole.eval(), VgfPartitioner(VgfCompileSpec()), CLASSIFIER)
    write(parted.eval(), VgfPartitioner(VgfCompileSpec()), FOLDER / "parted.pte")
    print([round(float(value), 6) for value in whole(torch.ones(SHAPE)).flatten()])
    write(quantised(torch.nn.ReLU()), EthosUPartitioner(spec), FOLDER / "commands.pte")


if __name__ == "__main__":
    main()
