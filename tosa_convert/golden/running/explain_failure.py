"""Explain why the reference model refused a graph: operator, rule and shapes instead of its log.

On stderr the model prints the check that failed (a condition of its source), a sentence, and sometimes
the node's number and type. Otherwise a second run with its trace on names the node.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from tosa_convert.errors import Finding
from tosa_convert.golden.running.random_inputs import indexed, integer_inputs
from tosa_convert.graph.model import (
    UNLOCATED,
    Block,
    Graph,
    Operator,
    Tensor,
    counted,
    operator_path,
)
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.process.child import Ended, describe_exit
from tosa_convert.remedies import hint_for
from tosa_convert.rules.validate import Validator

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

#: The rule of an index: it lies within the dimension that it selects from.
_INDEX_RULE: Final = re.compile(r"k >= 0 && k < K")

#: Exit code of the program if the specification leaves the result unpredictable.
UNPREDICTABLE: Final = 1
#: Path of a block, the block, and an operator of it with its index.
_Place = tuple[str, Block, int, Operator]


def is_nameless(ended: Ended) -> bool:
    """Return whether the model refused the graph without naming the operator where it stopped."""
    return "validateGraph()" in ended.stderr and not _NODE.search(ended.stderr)


def explain(graph: Graph, ended: Ended, trace: str, index: int | None = None) -> Finding:
    """Return the refusal as a finding: operator, rule, shapes, and the model's own sentence.

    index: the operator of the main block, if the caller knows it.
    """
    text = ended.stderr
    check = _CHECK.search(text)
    if index is not None:
        path, block = next(graph.blocks())
        refused: _Place | None = (path, block, index, block.operators[index])
    else:
        refused = _refused_operator(graph, text, trace)
    where, shapes = "", ""
    if refused is not None:
        path, block, index, operator = refused
        where = operator_path(path, index, operator)
        if operator.location not in UNLOCATED:
            where = f"{operator.location}: {where}"
        shapes = f"; {signature(block, operator)}"
    sentence = _sentence(text, check)
    lacking = _LACKING.search(text)
    if lacking is not None:
        return Finding(
            "refmodel-refused",
            where,
            f"the reference model has no {lacking['what']}{shapes}",
            _remedy(refused)
            or "numpy computes it where TOSA defines it for these element types: --engine numpy",
        )
    if is_nameless(ended):
        return Finding(
            "refmodel-refused",
            where,
            "the reference model refuses it: shapes, element types or attributes do not fit one "
            f"another{shapes}",
            "it does not name the rule; see the operator's rules in the TOSA specification",
        )
    if check is not None:
        verdict = (
            "for this data the specification leaves the result unpredictable"
            if ended.code == UNPREDICTABLE
            else "the reference model refuses it"
        )
        message = f"{verdict}: {sentence or 'no reason given'}{shapes}"
        rule = f"{_rule(check)} ({check['name']}:{check['line']}){_index_hint(refused, check)}"
        remedy = hint_for("refmodel-refused", "", message)
        return Finding("refmodel-refused", where, message, "; ".join(filter(None, (rule, remedy))))
    if sentence:
        return Finding(
            "refmodel-refused", where, f"the reference model refuses it: {sentence}{shapes}"
        )
    tail = " / ".join(line for line in text.strip().splitlines()[-3:] if line.strip())
    return Finding(
        "refmodel-failed",
        where,
        f"the reference model ended with {describe_exit(ended.code)}: {tail or 'no message'}{shapes}",
    )


def _remedy(refused: _Place | None) -> str:
    """Return what repairs an operator that TOSA forbids, or ""."""
    if refused is None:
        return ""
    path, block, index, _ = refused
    findings = Validator(Graph(V1_1_DRAFT, [])).block(path, block)
    place = operator_path(path, index, block.operators[index])
    return next((row.hint for row in findings if row.where.endswith(place) and row.hint), "")


def _rule(check: re.Match[str]) -> str:
    """Return the condition that must hold."""
    forbidden = "ERROR_IF" in check[0]
    if check["rule"] == "true":
        return "rule"
    return f"rule: not {check['rule']}" if forbidden else f"rule: {check['rule']}"


def _index_hint(refused: _Place | None, check: re.Match[str]) -> str:
    """Return which indices an operator takes, and the inputs they come from, if one is out of range."""
    if refused is None or not _INDEX_RULE.search(check["rule"]):
        return ""
    _, block, _, operator = refused
    index = indexed(block, operator.spec, operator.inputs)
    if index is None:
        return ""
    text = f'; "{index.tensor}" has {counted(index.rows, "row")}: indices are 0 to {index.rows - 1}'
    names = integer_inputs(block, operator.inputs[index.position])
    if names:
        ranges = " ".join(shlex.join(["--range", f"{name}=0:{index.rows - 1}"]) for name in names)
        text += f"; for random inputs: {ranges}"
    return text


def signature(block: Block, operator: Operator) -> str:
    """Return an operator's operands and results with their types and shapes, and its attributes."""
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
    """Return the model's own words: the line after the failed check, or the first error."""
    if check is not None:
        rest = text[check.end() :].lstrip("\n").splitlines()
        line = rest[0].strip() if rest else ""
        stops = ("Node type:", "Graph result:", "WARNING AT", "FATAL")
        return "" if line.startswith(stops) else line
    fatal = _FATAL.search(text)
    return fatal["text"].strip() if fatal is not None else ""


def _refused_operator(graph: Graph, text: str, trace: str) -> _Place | None:
    """Find the operator that was refused, as far as the model's messages and its trace name it."""
    places = [
        (path, block, index, op)
        for path, block in graph.blocks()
        for index, op in enumerate(block.operators)
    ]

    def numbered(match: re.Match[str]) -> list[_Place]:
        """Return the operators with the number and type of a message; at most one in each block."""
        number, name = int(match["id"]), match["type"]
        return [p for p in places if p[2] == number and p[3].spec.encoded_as == name]

    node = _NODE.search(text)
    if node is not None and len(named := numbered(node)) == 1:
        return named[0]
    evaluated = list(_TRACE.finditer(trace))
    if evaluated:
        last = evaluated[-1]
        outputs = [name.strip() for name in last["output"].split(",")]
        for place in places:
            op = place[3]
            if op.spec.encoded_as == last["type"] and op.outputs and op.outputs[0] in outputs:
                return place
        if named := numbered(last):
            return named[0]
    # The model creates the operators of a block in order, and stops at one that it does not have.
    created = list(_CREATE.finditer(trace)) if _LACKING.search(text) else []
    if created and (named := numbered(created[-1])):
        return named[0]
    for match in _TENSOR.finditer(text):
        for place in places:
            if match["name"] in place[3].outputs:
                return place
    return None
