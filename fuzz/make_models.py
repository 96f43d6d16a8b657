"""Write models that a campaign mutates: `python fuzz/make_models.py FOLDER [FOLDER ...]`.

Into the first folder: the TFLite models of tests/frontends, those of ONNX's node tests if onnx is
installed, and modules exported by torch if torch is; and copies of the small models below the others.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from model_targets import LARGEST_MODEL, ROWS

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "zoo"))


def write_tflite(folder: Path) -> None:
    """The programs of one operator each."""
    from frontends.tflite_operators.write import all_programs

    for number, program in enumerate(all_programs()):
        (folder / f"{number}.tflite").write_bytes(program.data())


def write_onnx(folder: Path) -> None:
    """The models of ONNX's own node tests."""
    import onnx

    tests = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    for path in sorted(tests.glob("*/model.onnx")):
        shutil.copyfile(path, folder / f"{path.parent.name}.onnx")


def _modules() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Small modules with weights, buffers that change, keywords, dictionaries and open sizes."""
    import torch
    from torch import nn

    class Stateful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.total += x
            return {"total": self.total * 2, "given": x}

    class Keywords(nn.Module):
        def forward(self, x: Any, *, scale: Any) -> Any:
            return x * scale, torch.where(x > 0, x, scale)

    batch = torch.export.Dim("batch")
    yield (
        "conv",
        lambda: torch.export.export(
            nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval(),
            (torch.zeros(1, 1, 8, 8),),
        ),
    )
    yield "state", lambda: torch.export.export(Stateful(), (torch.zeros(3),))
    yield (
        "keywords",
        lambda: torch.export.export(Keywords(), (torch.zeros(2, 3),), {"scale": torch.ones(3)}),
    )
    yield (
        "open",
        lambda: torch.export.export(
            nn.Linear(3, 2), (torch.zeros(4, 3),), dynamic_shapes=({0: batch},)
        ),
    )
    yield (
        "tokens",
        lambda: torch.export.export(
            nn.Sequential(nn.Embedding(8, 4), nn.LayerNorm(4)).eval(), (torch.zeros(1, 3).long(),)
        ),
    )
    yield (
        "attention",
        lambda: torch.export.export(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.zeros(1, 4, 8),)
        ),
    )


def write_torch(folder: Path) -> None:
    """Programs of torch.export."""
    import torch

    warnings.simplefilter("ignore")
    for name, export in _modules():
        torch.export.save(export(), folder / f"{name}.pt2")


def main(target: Path, others: list[Path]) -> None:
    """Write all that the installed packages allow."""
    target.mkdir(parents=True, exist_ok=True)
    write_tflite(target)
    if importlib.util.find_spec("onnx"):
        write_onnx(target)
    if importlib.util.find_spec("torch"):
        write_torch(target)
    for _, extension in ROWS.values():
        for path in (path for folder in others for path in sorted(folder.rglob(f"*{extension}"))):
            if path.stat().st_size <= LARGEST_MODEL:
                shutil.copyfile(path, target / f"{path.parent.name}-{path.name}")
    print(f"{len(list(target.iterdir()))} models in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
