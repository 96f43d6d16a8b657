"""What the reference model says when it refuses, told in terms of our graph.

On stderr it prints the check that failed (a condition of its source), a sentence, and sometimes the
node's number and type. Where it does not say the node, a second run with its trace on does.
"""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.child_process import Ended
from tosa_convert.errors import Finding
from tosa_convert.graph.model import Block, Graph, Operator, Tensor, operator_path

_CHECK: Final = re.compile(
    r"(?:REQUIRE|ERROR_IF|LEVEL_CHECK|SUBGRAPH_ERROR_IF|GRAPH_ERROR_IF)\(\) fails AT "
    r"(?P<file>[^\s:]*/)?(?P<name>[\w.]+):(?P<line>\d+) (?P<function>[^\n]*?): \((?P<rule>.*)\)$",
    re.MULTILINE,
)
_NODE: Final = re.compile(r"^Node type: (?P<type>\w+) ID: (?P<id>\d+)", re.MULTILINE)
_FATAL: Final = re.compile(r"^(?:FATAL ERROR|WARNING) AT .*?:\n(?P<text>.*)$", re.MULTILINE)
_TRACE: Final = re.compile(
    r"Evaluating node_(?P<id>\d+),\s*(?P<type>\w+), output tensor=(?P<output>.*)$", re.MULTILINE
)
_CREATE: Final = re.compile(r"Creating operator id_(?P<id>\d+),\s*(?P<type>\w+),", re.MULTILINE)
_LACKING: Final = re.compile(
    r"could not allocate op\s+(?P<what>\w+ .*?)(?:SubgraphTraverser|$)", re.M
)
_TENSOR: Final = re.compile(r"[Tt]ensor (?P<name>\S+) ")

#: Exit codes of the program, apart from signals.
UNPREDICTABLE, ERROR = 1, 2


def is_nameless(ended: Ended) -> bool:
    """Whether the model refused the graph as such and did not say which operator it stopped at."""
    return "validateGraph()" in ended.stderr and not _NODE.search(ended.stderr)


def explain(graph: Graph, ended: Ended, trace: str, index: int | None = None) -> Finding:
    """The refusal as a finding: operator, rule, shapes, and the model's own sentence.

    index: the operator of the main block, if the caller found it out.
    """
    text = ended.stderr
    check = _CHECK.search(text)
    if index is not None:
        path, block = next(graph.blocks())
        found: tuple[str, Block, int, Operator] | None = (
            path,
            block,
            index,
            block.operators[index],
        )
    else:
        found = _operator(graph, text, trace)
    where, shapes = "", ""
    if found is not None:
        path, block, index, operator = found
        where = operator_path(path, index, operator)
        if operator.location and operator.location != "loc(unknown)":
            where = f"{operator.location}: {where}"
        shapes = f"; {signature(block, operator)}"
    sentence = _sentence(text, check)
    lacking = _LACKING.search(text)
    if lacking is not None:
        return Finding(
            "refmodel-refused",
            where,
            f"the reference model has no {lacking['what']}{shapes}",
            "TOSA does not define the operator for these element types and ranks",
        )
    if is_nameless(ended):
        return Finding(
            "refmodel-refused",
            where,
            "the reference model refuses it: shapes, element types or attributes do not fit one "
            f"another{shapes}",
            "it does not say which; compare them with the operator's rules in the specification",
        )
    if check is not None:
        kind = (
            "for this data the specification leaves the result unpredictable"
            if ended.code == UNPREDICTABLE
            else "the reference model refuses it"
        )
        return Finding(
            "refmodel-refused",
            where,
            f"{kind}: {sentence or 'no reason given'}{shapes}",
            f"{_rule(check)} ({check['name']}:{check['line']})",
        )
    if sentence:
        return Finding(
            "refmodel-refused", where, f"the reference model refuses it: {sentence}{shapes}"
        )
    ending = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    tail = " / ".join(line for line in text.strip().splitlines()[-3:] if line.strip())
    return Finding(
        "refmodel-failed",
        where,
        f"the reference model ended with {ending}: {tail or 'it said nothing'}{shapes}",
    )


def _rule(check: re.Match[str]) -> str:
    """The condition that must hold."""
    forbidden = "ERROR_IF" in check[0]
    if check["rule"] == "true":
        return "rule"
    return f"rule: not {check['rule']}" if forbidden else f"rule: {check['rule']}"


def signature(block: Block, operator: Operator) -> str:
    """An operator's operands and results with their types and shapes, and its attributes."""
    count = len(operator.inputs)
    rows = [operator.spec.operand(i, count).name for i in range(count)]
    operands = ", ".join(
        f"{row} {_type(block, name)}" for row, name in zip(rows, operator.inputs, strict=True)
    )
    results = ", ".join(_type(block, name) for name in operator.outputs)
    attributes = ", ".join(
        f"{key}={list(value) if isinstance(value, tuple) else getattr(value, 'name', value)}"
        for key, value in operator.attributes.items()
        if not isinstance(value, bytes)
    )
    return f"({operands}) -> {results}" + (f" {{{attributes}}}" if attributes else "")


def _type(block: Block, name: str) -> str:
    value = block.tensors.get(name) or block.shapes.get(name)
    if value is None:
        return f'"{name}"'
    if isinstance(value, Tensor):
        shape = "unranked" if value.shape is None else list(value.shape)
        return f'"{name}" {value.dtype}{shape}'
    sizes = value.values()
    return f'"{name}" SHAPE{list(sizes) if sizes is not None else f"<{value.rank}>"}'


def _sentence(text: str, check: re.Match[str] | None) -> str:
    """The model's own words: the line behind the failed check, or the first complaint."""
    if check is not None:
        rest = text[check.end() :].lstrip("\n").splitlines()
        line = rest[0].strip() if rest else ""
        stops = ("Node type:", "Graph result:", "WARNING AT", "FATAL")
        return "" if line.startswith(stops) else line
    fatal = _FATAL.search(text)
    return fatal["text"].strip() if fatal is not None else ""


def _operator(graph: Graph, text: str, trace: str) -> tuple[str, Block, int, Operator] | None:
    """The operator that was refused, as far as it can be told."""
    node = _NODE.search(text)
    traces = list(_TRACE.finditer(trace))
    candidates = [
        (path, block, index, op)
        for path, block in graph.blocks()
        for index, op in enumerate(block.operators)
    ]
    if node is not None:
        matching = [
            c
            for c in candidates
            if c[2] == int(node["id"]) and c[3].spec.encoded_as == node["type"]
        ]
        if len(matching) == 1:
            return matching[0]
    if traces:
        last = traces[-1]
        names = [name.strip() for name in last["output"].split(",")]
        for candidate in candidates:
            op = candidate[3]
            if op.spec.encoded_as == last["type"] and op.outputs and op.outputs[0] in names:
                return candidate
        for candidate in candidates:
            if candidate[2] == int(last["id"]) and candidate[3].spec.encoded_as == last["type"]:
                return candidate
    # The model creates the operators of a block in order, and stops at one it does not have.
    created = list(_CREATE.finditer(trace)) if _LACKING.search(text) else []
    if created:
        last = created[-1]
        for candidate in candidates:
            if candidate[2] == int(last["id"]) and candidate[3].spec.encoded_as == last["type"]:
                return candidate
    for match in _TENSOR.finditer(text):
        for candidate in candidates:
            if match["name"] in candidate[3].outputs:
                return candidate
    return None
