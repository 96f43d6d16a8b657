"""What the user is told of an exported torch program, and what decides how it is lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import torch

from tosa_convert.frontends.torch.export import bounds_of, placeholder_values, size_names
from tosa_convert.frontends.torch.refusals import arguments_of, place_of
from tosa_convert.frontends.torch.signature import HELD, held_tensor

#: What operators call the argument that chooses between training and inference.
_TRAINING: Final = ("train", "training", "is_training")
#: The namespace of the operators that pt2e writes around those that it quantises.
_QUANTISED: Final = "quantized_decomposed"

#: Operators that stop the model if the data are not as it expects.
CHECKS: Final = (
    *("_assert_async", "_functional_assert_async", "_assert_scalar", "_functional_assert_scalar"),
    *("sym_constrain_range", "sym_constrain_range_for_size"),
)


def drop_checks(program: Any) -> list[str]:
    """Take the checks of data out of a program, in place; return a warning that names them."""
    found: Counter[str] = Counter()
    for node in reversed(list(program.graph.nodes)):
        name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        if node.op == "call_function" and name in CHECKS and not node.users:
            texts = [one for one in node.args if isinstance(one, str)]
            found[f"{name} {place_of(node)}".strip() + "".join(f" ({t})" for t in texts)] += 1
            program.graph.erase_node(node)
    if not found:
        return []
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return [
        "TOSA has no operator that stops a program, so checks of the data are left out: "
        + "; ".join(sorted(found))
    ]


def remarks_of(program: Any) -> list[str]:
    """Return warnings about training mode, and about sizes that are not fixed."""
    return [*training_remarks(program), *open_size_remarks(program)]


def training_remarks(program: Any) -> list[str]:
    """Return a warning if the program was exported for training."""
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    found = Counter(
        str(node.target).removesuffix(".default")
        for node in nodes
        if hasattr(node.target, "_schema")
        and any(arguments_of(node).get(name) is True for name in _TRAINING)
    )
    if not found:
        return []
    names = ", ".join(
        f"{name} ({count} times)" if count > 1 else name for name, count in found.items()
    )
    return [
        f"the module was exported in training mode, in which {names} computes something else than in"
        " inference: call module.eval() before it is exported"
    ]


def open_size_remarks(program: Any) -> list[str]:
    """Say how to fix the sizes of each input that are not fixed, and in which bounds they are."""
    names, bounds = size_names(program), bounds_of(program)
    found = {
        name: [names.get(str(size), str(size)) for size in value.shape]
        for name, value in placeholder_values(program).items()
        if any(not isinstance(size, int) for size in value.shape)
    }
    ends = "".join(
        f"; {names.get(symbol, symbol)} is at least {least}"
        + ("" if most is None else f" and at most {most}")
        for symbol, (least, most) in bounds.items()
    )
    return [
        f"the input {name} has sizes that are not fixed: {', '.join(sizes)};"
        f" --input-shape {name}={'x'.join(sizes)} with numbers fixes them{ends}"
        for name, sizes in found.items()
    ]


def is_quantised(program: Any) -> bool:
    """Return whether pt2e quantised the program: operators between dequantise and quantise."""
    return any(
        getattr(node.target, "namespace", "") == _QUANTISED
        for node in program.graph.nodes
        if node.op == "call_function"
    )


def float_remarks(program: Any) -> list[str]:
    """Warn if the program is quantised, for the route that computes some of it in floating point."""
    text = (
        "the program is quantised, and what is not between operators that dequantise and quantise to"
        " int8 is computed in floating point: --via executorch makes integer arithmetic of it"
    )
    return [text] if is_quantised(program) else []


#: Operators that become SCATTER: the position of their indices.
_SCATTERS: Final = {"scatter": 2, "index_copy": 2, "index_put": 1}
#: Operators whose elements are distinct if those of their first operand are, or that repeat all of them.
_DISTINCT: Final = frozenset(
    (
        *("to", "_to_copy", "clone", "alias", "detach", "view", "reshape", "unsqueeze", "squeeze"),
        *("slice", "flip", "add", "sub", "lift_fresh_copy", "contiguous", "flatten", "permute"),
    )
)


def scatter_remarks(program: Any) -> list[str]:
    """Warn of rows that are put at indices of which two may be equal: TOSA leaves that undefined."""
    held = {
        node: held_tensor(program, spec)
        for node, spec in zip(
            program.graph.find_nodes(op="placeholder"),
            program.graph_signature.input_specs,
            strict=False,
        )
        if spec.kind in HELD
    }
    places: Counter[str] = Counter()
    for node in program.graph.nodes:
        name, position = _name(node).removesuffix("_"), 0
        if node.op != "call_function" or name not in _SCATTERS or len(node.args) < 3:
            continue
        position = _SCATTERS[name]
        accumulates = name == "index_put" and True in node.args[3:]
        indices = node.args[position]
        given = [one for one in (indices if name == "index_put" else [indices]) if one is not None]
        if accumulates or "reduce" in (*node.kwargs, node.target._overloadname):
            continue
        if _puts_one_number(node) or any(_is_distinct(one, held) for one in given):
            continue
        places[f"{name} {place_of(node)}".strip()] += 1
    if not places:
        return []
    return [
        "rows are put at indices that the program computes or takes: TOSA leaves the result undefined"
        f" where two are equal (torch takes one of the rows): {'; '.join(sorted(places))}"
    ]


def _name(node: Any) -> str:
    return getattr(getattr(node.target, "overloadpacket", None), "__name__", "")


def _puts_one_number(node: Any) -> bool:
    """Return whether all rows are one number, which may be put several times."""
    value = node.args[2] if _name(node).startswith("index_put") else node.args[3]
    value = getattr(value, "meta", {}).get("val", value)
    return all(isinstance(size, int) and size == 1 for size in getattr(value, "shape", ()))


def _is_distinct(node: Any, held: Mapping[Any, Any]) -> bool:
    """Return whether the elements of an index are known to be distinct, or truth values."""
    value = node.meta.get("val")
    if value is None or value.dtype is torch.bool or _name(node) == "arange":
        return True
    if all(isinstance(size, int) for size in value.shape) and value.numel() <= 1:
        return True
    if node in held:
        return bool(len(held[node].unique()) == held[node].numel())
    others = [one for one in node.args[1:] if isinstance(one, torch.fx.Node)]
    if _name(node) not in _DISTINCT or any(getattr(one.meta["val"], "shape", ()) for one in others):
        return False
    return _is_distinct(node.args[0], held)
