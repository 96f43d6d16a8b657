"""What the verbs that run programs share: inputs from files, results into files, summaries."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from tosa_convert.cli.input_shapes import parsed
from tosa_convert.errors import fail
from tosa_convert.files import file_error
from tosa_convert.golden.array_io import Array, match
from tosa_convert.golden.npz import load_npz, save_npz, write_npz
from tosa_convert.golden.random_inputs import random_inputs
from tosa_convert.golden.runner import as_graph, input_slots
from tosa_convert.golden.runner import run as run_model
from tosa_convert.graph.model import Graph


def load_array(path: str) -> Array:
    """One array from an `.npy`; raises TosaConvertError("file-error")."""
    try:
        array: Array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise file_error(path, error, "read") from None
    except (ValueError, EOFError) as error:
        raise fail("file-error", path, f"it is no .npy: {error}") from None
    if not isinstance(array, np.ndarray):
        raise fail("file-error", path, "it holds several arrays, expected one .npy")
    return array


def gather_inputs(given: Iterable[str], names: list[str]) -> dict[str, Array]:
    """The arrays that the -i options name."""
    arrays: dict[str, Array] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and not os.path.exists(text):
            new = {name: load_array(path)}
        elif text.endswith(".npy"):
            if len(names) != 1:
                raise click.UsageError(
                    f"-i {text}: the model has {len(names)} inputs ({', '.join(names)}); "
                    f"write -i NAME={text}"
                )
            new = {names[0]: load_array(text)}
        else:
            new = load_npz(text)
        for key in new:
            if key in arrays:
                raise click.UsageError(f'input "{key}" is given twice')
        arrays.update(new)
    return arrays


def model_and_inputs(model: str, options: Mapping[str, Any]) -> tuple[Graph, dict[str, Array]]:
    """The program and an array for each of its inputs, checked.

    Raises TosaConvertError.
    """
    graph = as_graph(model, func=options["func"], input_shapes=parsed(options["input_shapes"]))
    slots = input_slots(graph)
    arrays = gather_inputs(options["inputs"], [slot.key for slot in slots])
    if options["random"] is not None:
        arrays = {**random_inputs(graph, slots, options["random"]), **arrays}
    elif not arrays and slots:
        raise click.UsageError(
            "no inputs: give -i NAME=FILE.npy, -i FILE.npz or --random SEED; it takes "
            + ", ".join(map(str, slots))
        )
    return graph, match(slots, arrays)


def described(arrays: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Name, type, shape and range of each array."""
    rows = []
    for name, array in arrays.items():
        row: dict[str, Any] = {
            "name": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
        }
        if array.size:
            wide = array.astype(np.float64) if array.dtype.kind not in "biu" else array
            with np.errstate(invalid="ignore"):
                row["min"], row["max"] = _plain(np.min(wide)), _plain(np.max(wide))
        rows.append(row)
    return rows


def _plain(value: Any) -> Any:
    number = value.item()
    return number if not isinstance(number, float) or np.isfinite(number) else str(number)


def run_command(model: str, options: Mapping[str, Any]) -> int:
    """`run`, once its modules are loaded."""
    from tosa_convert.golden.intermediates import iterate, not_collected, save_to_folder
    from tosa_convert.golden.runner import with_variables

    graph, arrays = model_and_inputs(model, options)
    states = load_npz(options["variables"]) if options["variables"] else {}
    if options["pattern"] and not options["intermediates"]:
        raise click.UsageError("--pattern chooses among --intermediates DIR|NPZ")
    if options["inside"] and not options["intermediates"]:
        raise click.UsageError("--inside adds to --intermediates DIR|NPZ")
    # A flatbuffer runs as it is; everything else as what it converts to.
    result = run_model(
        model if _runs_as_it_is(model) and not options["input_shapes"] else graph,
        arrays,
        variables=states,
        precise=options["precise"],
        bounds=options["bounds"] is not None,
        level=options["level"],
        timeout=options["timeout"],
    )
    if options["save_variables"] and graph_has_hidden_state(graph, result.variables):
        raise fail(
            "unsupported-operator",
            model,
            "variables are written inside control flow; their final state cannot be had",
        )
    summary: dict[str, Any] = {
        "outputs": described(result.outputs),
        "variables": described(result.variables),
        "seconds": round(result.seconds, 3),
    }
    for option, content in (
        ("output", result.outputs),
        ("bounds", result.bounds),
        ("save_variables", result.variables),
        ("save_inputs", arrays),
    ):
        if options[option]:
            save_npz(options[option], content)
    if options["intermediates"]:
        items = iterate(
            with_variables(graph, states),
            arrays,
            options["pattern"] or ("*",),
            precise=options["precise"],
            level=options["level"],
            timeout=options["timeout"],
            batch_bytes=options["batch_mib"] << 20,
            iterations=options["inside"],
        )
        missing = not_collected(graph, options["inside"], precise=options["precise"])
        target = options["intermediates"]
        if target.endswith(".npz"):
            rows = _save_to_npz(items, Path(target), missing)
        else:
            rows = save_to_folder(items, Path(target), missing)
        summary["intermediates"] = {"count": len(rows), "path": target, "not_collected": missing}
    _print(summary, options["as_json"])
    return 0


def graph_has_hidden_state(graph: Graph, known: Mapping[str, Any]) -> bool:
    """Whether a variable's state after the run is not among the known ones."""
    from tosa_convert.golden.runner import variables_of

    return any(name not in known for name in variables_of(graph))


def _runs_as_it_is(model: str) -> bool:
    from tosa_convert.files import map_file
    from tosa_convert.formats import sniff

    # What is no regular file can be read only once, and was.
    return os.path.isfile(model) and sniff(map_file(model), model) == "tosa"


def _save_to_npz(
    items: Iterator[Any], path: Path, missing: list[dict[str, object]]
) -> list[dict[str, Any]]:
    """Every array by name as it comes, and `manifest` (JSON as bytes): operator and location."""
    rows: list[dict[str, Any]] = []

    def arrays() -> Iterator[tuple[str, Array]]:
        for item in items:
            for key, array in item.arrays.items():
                rows.append({"name": key, "operator": item.operator, "location": item.location})
                yield key, array
        text = json.dumps({"tensors": rows, "not_collected": missing})
        yield "manifest.json", np.frombuffer(text.encode(), np.uint8)

    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "wb") as file:
            write_npz(file, arrays())
        os.replace(beside, path)
    except OSError as error:
        raise file_error(path, error, "written") from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
    return rows


def _print(summary: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    for kind in ("outputs", "variables"):
        for row in summary[kind]:
            span = f" {row['min']} .. {row['max']}" if "min" in row else ""
            click.echo(f"{kind[:-1]} {row['name']}: {row['dtype']}{row['shape']}{span}")
    if "intermediates" in summary:
        click.echo("{count} intermediates in {path}".format(**summary["intermediates"]))
        for row in summary["intermediates"]["not_collected"]:
            names = [name for found in row["tensors"].values() for name in found]
            click.echo(
                f"note: {row['operator']}: {row['reason']}; not collected: "
                + (
                    ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
                    if names
                    else "nothing"
                )
            )


def backend_of(graph: Graph, arrays: Mapping[str, Array], options: Mapping[str, Any]) -> Any:
    """What --against names."""
    from tosa_convert.golden.backends import open_backend

    return open_backend(
        options["against"],
        graph,
        arrays,
        original=options["original"],
        python=options["python"],
        timeout=options["timeout"],
    )


def tolerances_of(options: Mapping[str, Any]) -> Any:
    """What --atol and --rtol ask for."""
    from tosa_convert.golden.compare import Tolerances

    pairs = {}
    for option in ("atol", "rtol"):
        found = []
        for text in options[option]:
            name, colon, value = text.rpartition(":")
            try:
                number = float(value)
            except ValueError:
                number = -1.0
            if not number >= 0:
                raise click.UsageError(
                    f"--{option} {text}: expected [NAME:]VALUE, a number from 0 up"
                )
            found.append((name if colon else "*", number))
        pairs[option] = tuple(found)
    return Tolerances(pairs["atol"], pairs["rtol"])
