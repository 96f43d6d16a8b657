"""Random programs whose operators share regions, which MLIR cannot: its copies come back as one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from roundtrip.graphs import blocks

import tosa_convert as tc
from tosa_convert.graph import OPERATORS, Graph, Region
from tosa_convert.graph.derived import unrun_regions
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.rules.infer import settled

_SPECS = [row for row in OPERATORS if row.regions] * 2
_SPECS += [row for row in OPERATORS if row.name in ("ADD", "ABS", "CONST_SHAPE")]


@st.composite
def sharing(draw: Any) -> Graph:
    """Return a graph in which operators run any of the later regions. Each region is run."""
    names = ["main", "r", "r_1", "r_2"]
    regions = []
    for index, name in enumerate(names):
        rows = [row for row in _SPECS if not (row.regions and index == len(names) - 1)]
        specs = draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3))
        regions.append(Region(name, [draw(blocks(names[index + 1 :], specs))]))
        regions[-1].blocks[0].name = f"{name}_block" if index else "main"
    made = Graph(V1_1_DRAFT, regions)
    unrun = unrun_regions(made)
    made.regions = [region for region in made.regions if region not in unrun]
    return made


@pytest.mark.slow
@given(sharing(), st.sampled_from([1, 6]))
@settings(max_examples=25, deadline=None)
def test_shared_regions_survive_a_round_trip_through_mlir(made: Graph, version: int) -> None:
    assume(tc.compare(made, settled(made)) is None)  # reading adds the sizes that follow
    data = tc.dumps(made, "mlirbc", validate=False, bytecode_version=version)
    assert tc.compare(made, tc.load(data)) is None
    data = tc.dumps(made, "mlirbc", validate=False, names="generate")
    assert tc.compare(made, tc.load(data), names=False) is None
