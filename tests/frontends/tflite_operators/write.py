"""Write the programs of this folder as .tflite files, with their inputs: `python write.py FOLDER`.

Below the folder there is one for each operator. `suite FOLDER --frontends tflite` runs them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frontends.tflite_operators import (
    cells,
    control,
    elementwise,
    movement,
    reductions,
    sequences,
    windows,
)
from frontends.tflite_operators.programs import Program, Programs

_FAMILIES: Final[Sequence[Callable[[], Programs]]] = (
    elementwise.unary,
    elementwise.rescaled_unary,
    elementwise.with_options,
    elementwise.binary,
    elementwise.powers,
    elementwise.comparisons,
    windows.convolutions,
    windows.transposed_convolutions,
    windows.pooling,
    windows.matrices,
    windows.resizing,
    movement.shapes,
    movement.layouts,
    movement.joined,
    movement.slices,
    movement.copies,
    movement.indexed,
    movement.chosen,
    movement.conversions,
    reductions.reductions,
    reductions.positions,
    reductions.normalisations,
    reductions.along_axes,
    control.branches,
    control.loops,
    control.states,
    control.arguments,
    cells.cells,
    sequences.sequences,
)


def all_programs() -> Iterator[Program]:
    """Iterate over every program, each with a name of its own."""
    for family in _FAMILIES:
        yield from family()


def write(program: Program, folder: Path) -> Path:
    """Write a program and its inputs; returns the path of the model."""
    path = folder / program.operator / f"{program.name}.tflite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(program.data())
    np.savez(path.with_suffix(".inputs.npz"), **program.arrays)
    return path


def main(folder: Path) -> None:
    """Write all of them, and say how many."""
    paths = [write(program, folder) for program in all_programs()]
    if len(set(paths)) != len(paths):
        raise SystemExit("two programs have one name")
    print(f"{len(paths)} programs of {len({path.parent for path in paths})} operators in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
