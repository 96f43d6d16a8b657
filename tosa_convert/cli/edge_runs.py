"""Runs with edge inputs, besides those with random ones: when there are any, and their report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tosa_convert.cli.messages import note, say
from tosa_convert.cli.run_model import given_arrays, parse_ranges, variables_of
from tosa_convert.errors import TosaConvertError, printable
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.checking.check import takes_edge_inputs
from tosa_convert.golden.edges.edge_inputs import EdgeInputs, find_edge_inputs
from tosa_convert.golden.running.programs import input_slots, with_variables
from tosa_convert.graph.model import Graph
from tosa_convert.io import log


def has_edge_run(graph: Graph, options: Mapping[str, Any], against: str) -> bool:
    """Return whether a backend also runs on edge inputs, besides random ones.

    Not recorded results and models of frameworks, nor with tolerances of the user: they are for random
    inputs.

    Raises click.UsageError for an option about edges that does not apply.
    """
    is_random = options["random"] is not None or bool(options.get("seeds"))
    given: Mapping[str, Array] = {}
    if is_random and (options["edges"] or options["no_edges"] or options["arrays"]):
        given = given_arrays(graph, options)
    has_others = any(slot.key not in given for slot in input_slots(graph))
    for option, flag in (("edges", "--edges"), ("no_edges", "--no-edges")):
        if options[option] and not is_random:
            raise click.UsageError(f"{flag} needs --random SEED")
        if options[option] and not has_others:
            raise click.UsageError(f"{flag} does not apply: -i gives every input")
    if options["edges"] or options["no_edges"] or not is_random or not has_others:
        return False
    if options["atol"] or options["rtol"] or options.get("reference"):
        return False
    return takes_edge_inputs(against)


def edge_inputs_of(
    graph: Graph, options: Mapping[str, Any], seed: int, *, is_wanted: bool = False
) -> EdgeInputs | None:
    """Return the edge inputs of a seed; None, with a note, if there are none.

    is_wanted: an option asks for them; then an error is raised.
    """
    given = given_arrays(graph, options)
    states = with_variables(graph, variables_of(graph, options))
    try:
        return find_edge_inputs(states, seed, given, parse_ranges(options["ranges"]))
    except TosaConvertError as error:
        if is_wanted:
            raise
        note(f"no run with edge inputs: {error.findings[0].message}")
        return None


def say_edges(found: EdgeInputs) -> None:
    """Print how many edges are met, and with --verbose which ones, and how inputs were repaired."""
    say(f"edges: {found.coverage}")
    if log.is_verbose():
        for repair in found.repairs:
            say(f"       {printable(repair)}")
        for row in found.coverage.operators:
            say(f"       {printable(str(row))} {printable(row.location)}".rstrip())


def edges_as_dict(found: EdgeInputs) -> dict[str, Any]:
    """Return the coverage, and how inputs were repaired, as JSON values."""
    return {"coverage": found.coverage.to_dict(), "repairs": found.repairs}
