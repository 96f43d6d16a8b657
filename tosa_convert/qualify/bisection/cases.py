"""Saves a divergence as a separate case: a folder with the part of the model and its arrays."""

from __future__ import annotations

import json
import shlex

from tosa_convert import api
from tosa_convert.golden.arrays.by_name import OutputFolder
from tosa_convert.golden.arrays.npz import npz_pieces
from tosa_convert.golden.backends.isolated import OtherModel
from tosa_convert.golden.backends.runners import Backend, Record
from tosa_convert.graph.derived import extract_from
from tosa_convert.io.files import PathLike
from tosa_convert.qualify.bisection.result import Divergence


def save_case(divergence: Divergence, folder: PathLike, backend: Backend) -> list[str]:
    """Write a divergence as a folder that shows it without the rest of the model.

    The folder gets `case.tosa`, `inputs.npz`, `expected.npz`, `found.npz` and `case.json`; if the
    backend is another version of the model, also its part (`found.tosa`).

    Args:
        divergence: what `bisect` found: `Bisection.first`.
        folder: the folder to write, which is replaced as a whole.
        backend: the backend that was searched.

    Returns:
        Commands that repeat the comparison in the folder.

    Raises:
        TosaConvertError: `file-error`; no file of this call is left then.
    """
    if not isinstance(divergence, Divergence):
        raise TypeError(f"found {type(divergence).__name__}, expected a Divergence of bisect")
    case = divergence.case
    with OutputFolder(folder) as target:
        target.write("case.tosa", api.encode(api.stamp(case.graph)))
        target.write("inputs.npz", npz_pieces(case.inputs))
        target.write("expected.npz", npz_pieces(case.expected))
        target.write("found.npz", npz_pieces(case.found))
        against = "found.npz"
        innermost = backend
        for output, attribute in divergence.inside:
            if not isinstance(innermost, Record):
                innermost = innermost.inside(output, attribute)
        if isinstance(innermost, OtherModel):
            own_inputs = innermost.graph.main.inputs
            cuts = [name for name in case.graph.main.inputs if name not in own_inputs]
            part = extract_from(innermost.graph, case.graph.main.outputs, cuts)
            target.write("found.tosa", api.encode(api.stamp(part)))
            against = "found.tosa"
        elif not isinstance(backend, Record):
            against = shlex.quote(backend.text)
        commands = [
            "tosa-flatbuffer run case.tosa -i inputs.npz -o answer.npz",
            f"tosa-flatbuffer check case.tosa -i inputs.npz --against {against}",
        ]
        description = {**divergence.to_dict(), "commands": commands}
        target.write("case.json", [json.dumps(description, indent=1).encode() + b"\n"])
    return commands
