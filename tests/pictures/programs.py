"""Programs for tests of pictures: networks with scopes, control flow, and hostile names."""

from __future__ import annotations

from itertools import pairwise

from unit.building import graph as graph_of
from unit.building import op, tensor

from tosa_convert.graph import Graph, Operator

#: Texts that would do harm in a page, in a script, in an attribute or in a DOT or XML file.
HOSTILE = (
    "</script><script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed=1'>",
    '"]; window.harmed = 1; ["',
    "<!-- <script>",
    "{{script}}{{data}}{{policy}}",
    "\u2028\u2029 &lt;b&gt; &amp;",
    '\\" ] ; evil [label="',
    "__proto__",
    "constructor",
    "]]>",
    "a\x01b\x1b[31m\u202eabc",
    "x" * 5000,
    "\u5f20\u91cf",
)


def network(operators: int, *, scoped: bool = False) -> Graph:
    """Return a residual network: chains of eight operators, each with a shortcut around it."""
    kinds = ("ABS", "EXP", "TANH", "CEIL")
    names = ["x"]
    rows: list[Operator] = []
    for number in range(operators):
        scope = f"stage_{number // 64}/block_{number // 8}/" if scoped else ""
        name, location = f"{scope}op_{number}", f'loc("net.py":{number}:4)'
        if number % 8 == 7:
            rows.append(op("ADD", f"{names[-1]} {names[-8]}", name, location))
        else:
            rows.append(op(kinds[number % 4], names[-1], name, location))
        names.append(name)
    return graph_of("x", names[-1], [tensor(name, "FP32", (1, 8)) for name in names], rows)


def hostile() -> Graph:
    """Hostile texts as names of tensors, scopes and the region, and in locations."""
    names = [*HOSTILE, *(f"scope/{text}/{end}" for text in HOSTILE for end in "ab")]
    rows = []
    for before, name in pairwise(names):
        row = op("ABS", location=f'loc("{name}")')
        row.inputs, row.outputs = (before,), (name,)
        rows.append(row)
    made = graph_of("", "", [tensor(name) for name in names], rows)
    made.main.inputs, made.main.outputs = [names[0]], [names[-1]]
    made.regions[0].name = HOSTILE[0]
    return made
