"""`convert --partial`: a model of which some operators do not lower, as several programs."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

from tosa_convert.cli.convert_file import write_output
from tosa_convert.cli.messages import note
from tosa_convert.errors import printable
from tosa_convert.formats.write import stamp
from tosa_convert.graph.model import Graph
from tosa_convert.io.files import create_locked, file_error, release, replace_file, temporary_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tosa_convert.cli.convert_file import ConvertOptions
    from tosa_convert.frontends.partial.programs import Parts
    from tosa_convert.io.formats import Format
    from tosa_convert.io.options import WriteOptions


def write_parts(
    made: Graph | Parts,
    source: str,
    output: str,
    file_format: Format,
    write_options: WriteOptions,
    options: ConvertOptions,
) -> None:
    """Write the programs as NAME.0.tosa, NAME.1.tosa, ... and in NAME.json how they belong together.

    All files are complete before the first of them is put in its place; NAME.json is the last. A model
    of which everything lowers is one program, in the output file.
    """
    if isinstance(made, Graph):
        graph = stamp(made, options.tosa_version)
        write_output(graph, output, file_format, write_options, options)
        return
    parts = made
    folder = os.path.dirname(output) or "."
    stem, extension = os.path.splitext(os.path.basename(output))
    programs = [f"{stem}.{number}{extension}" for number in range(len(parts.programs))]
    constants = [f"{stem}.constants.npz"] if parts.constants else []
    interface = f"{stem}.json"
    scratch = temporary_path(os.path.join(folder, stem))
    try:
        _, lock = create_locked(scratch, lambda: os.mkdir(scratch))
    except OSError as error:
        raise file_error(folder, error, "written") from None
    try:
        for name, program in zip(programs, parts.programs, strict=True):
            graph = stamp(program, options.tosa_version)
            target = os.path.join(scratch, name)
            write_output(graph, target, file_format, write_options, options)
        for name in constants:
            _save_arrays(os.path.join(scratch, name), parts.constants)
        rows = parts.interface(programs, constants[0] if constants else None, source)
        text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
        replace_file(os.path.join(scratch, interface), [text.encode()])
        for name in (*programs, *constants, interface):
            _move(os.path.join(scratch, name), os.path.join(folder, name))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        release(lock)
    note("\n".join(map(printable, _report(parts, programs, interface))))


def _save_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Write an .npz file. `numpy.savez` does not take every name, and writes the time of day."""
    import numpy as np

    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                    np.save(file, array, allow_pickle=False)
    except OSError as error:
        raise file_error(path, error, "written") from None


def _move(source: str, target: str) -> None:
    try:
        os.replace(source, target)
    except OSError as error:
        raise file_error(target, error, "written") from None


def _report(parts: Parts, programs: list[str], interface: str) -> list[str]:
    """Return what was written, and what was left out, for people."""
    count = len(programs)
    made = f"{count} programs ({', '.join(programs)})" if count > 1 else "".join(programs)
    left = len(parts.operators)
    head = f"{interface}: {made or 'no program'}; "
    head += "1 operator is" if left == 1 else f"{left} operators are"
    return [
        f"{head} left to the caller:",
        *(
            f"  {one.operator} ({one.where})" if one.where else one.operator
            for one in parts.operators
        ),
    ]
