"""Gets an exported torch program from a file, a factory or a module, and says what is to know of it."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import sysconfig
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch._export.serde.serialize import SerializeError
from torch.export.graph_signature import TensorArgument
from torch.utils import _pytree as pytree

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.process.python_file import call_factory, tuple_of_arguments
from tosa_convert.frontends.process.request import (
    SIZE_NAMES,
    STATE_FILE,
    TRUSTED,
    Request,
    State,
    Value,
)
from tosa_convert.frontends.torch.archive import load_archive, unknown_classes
from tosa_convert.frontends.torch.refusals import arguments_of, place_of
from tosa_convert.frontends.torch.signature import (
    HELD,
    held_tensor,
    input_names,
    merge_tied,
    name_results,
    user_inputs,
)
from tosa_convert.frontends.torch.signature import State as HeldState
from tosa_convert.process.workers import import_of_this_package

_WITH_EXAMPLES: Final = (
    "write a function that returns the module with example arguments, from which torch takes types and"
    " shapes: return module.eval(), (torch.zeros(1, 3, 224, 224),)"
)
_REGISTER: Final = (
    "return a tuple or a dictionary, or register a dataclass with torch.export.register_dataclass"
)
#: Lines of an exception's text that a message repeats.
_MOST_LINES: Final = 8
#: The Python file that loads a program for torch.
_RUNNABLE: Final = "program_of_archive.py"


def export_module(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any] | None = None
) -> Any:
    """Export a module with example arguments; return an exported program as it is."""
    if isinstance(module, torch.export.ExportedProgram):
        return module
    if not isinstance(module, torch.nn.Module):
        message = (
            f"expected a torch.nn.Module or an exported program, found {type(module).__name__}"
        )
        hint = "a function is the method `forward` of a module" if callable(module) else ""
        raise fail("frontend-failed", "torch", message, hint)
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        message = "it is a module of TorchScript, which torch.export does not take"
        hint = "give the module of which torch.jit.script or torch.jit.trace made it"
        raise fail("frontend-failed", name, message, hint)
    # What torch.compile returns computes what the module in it computes.
    module = getattr(module, "_orig_mod", module)
    arguments = tuple_of_arguments(arguments, name)
    program = exported(module, arguments, dict(keywords or {}))
    merge_tied(program)
    name_results(program)
    refuse_lost_changes(module, arguments, keywords or {}, name)
    return program


#: Operators of ExecuTorch that also lay the elements out, and what they are without that.
_LAYOUTS: Final = {"_to_dim_order_copy": "_to_copy", "_clone_dim_order": "clone"}


def _without_layouts(program: Any) -> Any:
    """Return the program without the layouts that its quantisation chose, which files do not hold."""
    for node in program.graph.nodes:
        if getattr(node.target, "namespace", "") == "dim_order_ops":
            packet = node.target.overloadpacket.__name__
            if packet in _LAYOUTS:
                node.target = getattr(torch.ops.aten, _LAYOUTS[packet]).default
                node.kwargs = {key: node.kwargs[key] for key in node.kwargs if key == "dtype"}
    return program


def exported(
    module: Any,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> Any:
    """Export a module; raise "not-lowered" for what torch cannot trace, else "frontend-failed"."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    try:
        with torch.no_grad():
            return _without_layouts(
                torch.export.export(module, arguments, keywords, dynamic_shapes=dynamic_shapes)
            )
    except UnsupportedOperatorException as error:
        message = f"torch.export cannot trace the operator {error.func}, for example for open sizes"
        hint = "fix the sizes of the inputs, or write it with other operators"
        raise fail("not-lowered", type(module).__name__, message, hint) from None
    except _data_dependent() as error:
        lines = str(error).splitlines()
        said = next((line for line in lines if line.startswith("Could not")), lines[0])
        cause = next((line for line in lines if line.startswith("Caused by: ")), "")
        where = _line_of_user(error) or cause.removeprefix("Caused by: ").strip("()")
        message = f"torch.export cannot follow what depends on the data: {said.strip()}"
        hint = "compute it without a branch, for example with torch.where, or outside of the model"
        raise fail("not-lowered", where or type(module).__name__, message, hint) from None
    except Exception as error:  # Of torch, or of the module itself.
        what, where = "torch.export does not export it", type(module).__name__
        raise said_by_torch(error, what, where) from error


def said_by_torch(error: Exception, what: str, where: str) -> TosaConvertError:
    """Return the error for an exception of torch, which it quotes. where: if no line is to blame."""
    text = "\n    ".join(str(error).splitlines()[:_MOST_LINES])
    hint = _REGISTER if "not a known type" in text else ""
    message = f"{what}: {type(error).__name__}: {text}"
    return fail("frontend-failed", _line_of_user(error) or where, message, hint)


def _line_of_user(error: Exception) -> str:
    """Return the last line in a traceback that is in no package, such as that of a module; or ""."""
    own = Path(__file__).parents[2]
    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    folders += [own, Path(torch.__file__).parent]
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    lines = [
        f"{path}:{line}"
        for path, line in frames
        if path.is_file() and not any(path.is_relative_to(folder) for folder in folders)
    ]
    return lines[-1] if lines else ""


def _data_dependent() -> tuple[type[Exception], ...]:
    """Return what torch.export raises for a branch on the data; the modules are slow to import."""
    from torch._dynamo.exc import UserError
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return GuardOnDataDependentSymNode, UserError


def save_program(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any] | None, path: Path
) -> dict[str, str]:
    """Export a module and write the program as a `.pt2` file; return the options for loading it."""
    program = export_module(module, arguments, keywords)
    signature = program.module_call_graph[0].signature
    signature.out_spec = _with_plain_tuples(signature.out_spec)
    for held in (program.state_dict, program.constants):
        for key, tensor in held.items():  # Files have no bits for these.
            if isinstance(tensor, torch.Tensor) and (tensor.is_conj() or tensor.is_neg()):
                held[key] = tensor.resolve_conj().resolve_neg()
    try:
        torch.export.save(program, path)
    except SerializeError:
        raise _no_file_form(program, type(module).__name__) from None
    return {TRUSTED: "yes", SIZE_NAMES: json.dumps(size_names(program))}


def _no_file_form(program: Any, where: str) -> TosaConvertError:
    """Return the error for a program that torch does not write as a file: it names other operators."""
    plain = ("aten", "prims", "quantized_decomposed", "higher_order")
    names = {
        str(node.target).removesuffix(".default"): node
        for node in program.graph.nodes
        if node.op == "call_function" and getattr(node.target, "namespace", "aten") not in plain
    }
    operators = ", ".join(f"{name} ({place_of(node)})" for name, node in names.items())
    message = f"torch.export.save does not write it as a file: {operators or 'it says no operator'}"
    hint = "convert it from a Python file with a function that returns the module: model.py:NAME"
    return fail("not-lowered", where, message, hint)


def _with_plain_tuples(tree: Any) -> Any:
    """Return a tree with tuples for named ones, whose classes the process that loads it lacks."""
    children = getattr(tree, "children", None)  # The name since torch 2.10.
    parts = list(map(_with_plain_tuples, children() if callable(children) else tree.children_specs))
    if not parts:  # A leaf, of a class of its own.
        return tree
    is_named = isinstance(tree.context, type) and issubclass(tree.context, tuple)
    return pytree.TreeSpec(*((tuple, None) if is_named else (tree.type, tree.context)), parts)


def load_program(request: Request) -> Any:
    """Load the program of a `.pt2` file or a Python file's factory, with the shapes asked for."""
    program = _loaded(request)
    return _with_shapes(program, request.input_shapes) if request.input_shapes else program


def _loaded(request: Request) -> Any:
    source, member = Path(request.source), request.member
    if not member:
        # A quantised program has these operators, which torch does not know by itself.
        with contextlib.suppress(ImportError):  # Another release of torch has them elsewhere.
            importlib.import_module("torch.ao.quantization.fx._decomposed")
        trusted = request.options.get(TRUSTED) == "yes"
        program = load_archive(source, request.shown or request.source, trusted=trusted)
        program.graph_module.meta[SIZE_NAMES] = json.loads(request.options.get(SIZE_NAMES, "{}"))
        return program
    made = call_factory(source, member, request.users_folder)
    if isinstance(made, torch.export.ExportedProgram):
        return made
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        message = (
            f"{member}() must return (module, args) or (module, args, kwargs), found"
            f" {type(made).__name__}"
        )
        hint = _WITH_EXAMPLES if isinstance(made, torch.nn.Module) else ""
        raise fail("frontend-failed", str(source), message, hint)
    return export_module(*made)


def write_runnable(request: Request, folder: Path) -> str:
    """Write what runs the model in torch, which lacks the file's classes; return its name, or ""."""
    source = Path(request.source)
    if request.member or not any(unknown_classes(source)):
        return ""
    code = f"\nfrom pathlib import Path\nfrom {load_archive.__module__} import load_archive\n"
    call = f"def make():\n    return load_archive(Path({str(source)!r}), {request.shown!r})\n"
    (folder / _RUNNABLE).write_text(import_of_this_package() + code + call, encoding="utf-8")
    return f"{_RUNNABLE}:make"


def example_tensors(program: Any) -> list[Any]:
    """Return the tensors among the arguments that a program was exported with, in order."""
    leaves = pytree.tree_leaves(program.example_inputs)
    return [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def arrays_of(tensors: Iterable[Any]) -> list[Any]:
    """Return tensors as numpy has them; types that numpy does not have as opaque bytes."""
    return [_array(tensor.contiguous()) for tensor in tensors]


def _array(tensor: Any) -> Any:
    try:
        return tensor.numpy()
    except TypeError:
        size = tensor.element_size()
        return tensor.view(torch.uint8 if size == 1 else torch.int16).numpy().view(f"V{size}")


def value_of_tensor(name: str, tensor: Any) -> Value:
    """Return what a tensor is as an input or an output of this name."""
    shape = tuple(size if isinstance(size, int) else -1 for size in tensor.shape)
    return Value(name=name, dtype=str(tensor.dtype).removeprefix("torch."), shape=shape)


def write_states(states: Sequence[HeldState], folder: Path) -> list[State]:
    """Write the tensors of states, and return these as an interface has them."""
    values = arrays_of(state.value for state in states)
    arrays = {f"state{number}": value for number, value in enumerate(values)}
    if arrays:
        np.savez(folder / STATE_FILE, allow_pickle=False, **arrays)
    return [
        State(name=state.name, argument=state.argument, result=state.result, array=key)
        for key, state in zip(arrays, states, strict=True)
    ]


def placeholder_values(program: Any) -> dict[str, Any]:
    """Return the tensor without data that torch traced for each input, by name."""
    by_node = {node.name: node.meta.get("val") for node in program.graph.nodes}
    user = user_inputs(program, TensorArgument)
    return {
        name: by_node[spec.arg.name]
        for name, spec in zip(input_names(program), user, strict=False)
        if by_node.get(spec.arg.name) is not None
    }


def _with_shapes(program: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Export the program again with shapes of inputs; sizes that inputs share follow."""
    values = placeholder_values(program)
    for position, name in enumerate(values):
        if (called := f"arg{position}") in shapes and called not in values:
            if shapes.get(name, shapes[called]) != shapes[called]:
                message = f"{called} has other sizes, and is the same input"
                raise fail("option-conflict", f"--input-shape {name}", message)
            shapes = {name if key == called else key: shapes[key] for key in shapes}
    symbols: dict[str, str] = {}
    for symbol, name in size_names(program).items():
        symbols |= {symbol: symbol, name: symbol}
    unknown = [name for name in shapes if name not in values and name not in symbols]
    if unknown:
        message = f"no input or size is called {', '.join(unknown)}"
        places = {
            str(size): f"size {axis} of {name}"
            for name, value in reversed(values.items())
            for axis, size in reversed([*enumerate(value.shape)])
            if not isinstance(size, int)
        }
        # A `.pt2` file has lost the names of `Dim`: torch's own say little without their place.
        named = ", ".join(
            f"{called} ({places[symbol]})" if symbol in places else called
            for symbol, called in size_names(program).items()
        )
        hint = f"inputs: {', '.join(values)}" + (f"; sizes: {named}" if named else "")
        raise fail("unknown-argument", "--input-shape", message, hint)
    given = {symbols[name]: shape[0] for name, shape in shapes.items() if name not in values}
    shapes = {name: shape for name, shape in shapes.items() if name in values}
    sizes = _sizes(values, shapes, given)
    _refuse_out_of_bounds(program, sizes)
    return _exported_with(
        program, {name: _shape(value, shapes.get(name), sizes) for name, value in values.items()}
    )


def with_sizes(program: Any, sizes: Mapping[str, int]) -> Any:
    """Export a program again with a size for each symbol of those that are not fixed."""
    shapes = {
        name: [size if isinstance(size, int) else _size(size, sizes) for size in value.shape]
        for name, value in placeholder_values(program).items()
    }
    return _exported_with(program, shapes)


def _size(size: Any, sizes: Mapping[str, int]) -> int:
    """Return a size that symbols give, such as twice one."""
    return int(size.node.expr.subs({one: sizes[str(one)] for one in symbols_of(size)}))


def is_fixed(size: Any) -> bool:
    """Return whether a size is a number, also where torch has found out that it must be one."""
    return isinstance(size, int) or not symbols_of(size)


def symbols_of(size: Any) -> list[Any]:
    """Return the symbols of a size that is not fixed, in the order of their names."""
    return sorted(size.node.expr.free_symbols, key=str)


def _exported_with(program: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    values = placeholder_values(program)
    tensors = {name: torch.zeros(shapes[name], dtype=one.dtype) for name, one in values.items()}
    names = iter(input_names(program))
    # Constants among the arguments are as the program has them.
    flat = [
        spec.arg.value if hasattr(spec.arg, "value") else tensors[next(names)]
        for spec in user_inputs(program)
    ]
    arguments, keywords = pytree.tree_unflatten(flat, program.call_spec.in_spec)
    return exported(program.module(), arguments, keywords)


def size_names(program: Any) -> dict[str, str]:
    """Return what each open size is called: as its `Dim`, which `.pt2` files lose, or by torch."""
    values = placeholder_values(program).values()
    sizes = [size for value in values for size in value.shape if not isinstance(size, int)]
    names = {str(size): str(size) for size in sizes if str(size).isidentifier()}
    for size in sizes:
        environment = size.node.shape_env
        called = environment.source_name_to_debug_name
        for source in environment.var_to_sources.get(size.node.expr, ()):
            if source.name in called:
                names[str(size)] = called[source.name]
    return {**names, **program.graph_module.meta.get(SIZE_NAMES, {})}


def bounds_of(program: Any) -> dict[str, tuple[int, int | None]]:
    """Return the least and the greatest value of each size that is not fixed; None for no greatest."""
    found = {}
    for symbol, row in program.range_constraints.items():
        upper = int(row.upper) if row.upper.is_Integer else None
        lower = int(row.lower) if row.lower.is_Integer else 0
        found[str(symbol)] = (max(lower, 0), upper)
    return found


def _refuse_out_of_bounds(program: Any, sizes: Mapping[str, int]) -> None:
    names = size_names(program)
    for symbol, (least, most) in bounds_of(program).items():
        value = sizes.get(symbol, least)
        if value < least or (most is not None and value > most):
            expected = f"from {least}" + ("" if most is None else f" to {most}")
            raise _wrong_shape(
                names.get(symbol, symbol), f"the program takes {expected}, found {value}"
            )


def _sizes(
    values: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], given: Mapping[str, int]
) -> dict[str, int]:
    """Return the size of each named dimension, refusing others. given: those of symbols given alone."""
    sizes = dict(given)
    for name, shape in shapes.items():
        found = values[name].shape
        if len(found) != len(shape):
            raise _wrong_shape(
                name, f"the input has {len(found)} dimensions, found {len(shape)} sizes"
            )
        for size, wanted in zip(found, shape, strict=True):
            fixed = sizes.setdefault(str(size), wanted) if not isinstance(size, int) else size
            if fixed != wanted:
                raise _wrong_shape(name, f"the size {size} is {fixed} and cannot be {wanted}")
    return sizes


def _wrong_shape(name: str, message: str) -> TosaConvertError:
    return fail("option-conflict", f"--input-shape {name}".strip(), message)


def _shape(value: Any, shape: Sequence[int] | None, sizes: Mapping[str, int]) -> list[int]:
    if shape is not None:
        return list(shape)
    missing = [str(s) for s in value.shape if not isinstance(s, int) and str(s) not in sizes]
    if missing:
        raise _wrong_shape(
            "", f"the size {missing[0]} of another input is open: give its shape, too"
        )
    return [size if isinstance(size, int) else sizes[str(size)] for size in value.shape]


# -- what a call changes in its arguments and an exported program does not -------------------------
# torch.export keeps what is written into tensors. It loses a tensor that takes the place of another in
# an object or in a list, such as the keys of a cache that grows, unless the module returns it.


def refuse_lost_changes(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], where: str
) -> None:
    """Refuse a module that gives its arguments other tensors than it returns.

    It is called, on copies, if an argument is an object, a list or a dictionary; its state stays.
    """
    given = (tuple(arguments), dict(keywords))
    if not any(map(_can_change, (*given[0], *given[1].values()))):
        return
    before = {name: tensor.clone() for name, tensor in module.named_buffers()}
    own = copy.deepcopy(given)
    known = {id(leaf) for leaf in pytree.tree_leaves(own)}
    with torch.no_grad():
        results = module(*own[0], **own[1])
        for name, tensor in module.named_buffers():
            tensor.copy_(before[name])
    known |= {id(leaf) for leaf in pytree.tree_leaves(results)}
    lost = [
        pytree.keystr(path[1:])
        for path, leaf in pytree.tree_flatten_with_path(own)[0]
        if isinstance(leaf, torch.Tensor) and id(leaf) not in known
    ]
    if lost:
        message = (
            f"a call gives its arguments new tensors, which torch.export loses: {', '.join(lost)}"
        )
        hint = "let the module return them, or write into the tensors that are there"
        raise fail("not-lowered", where, message, hint)


def _can_change(argument: Any) -> bool:
    """Return whether an argument is more than tensors and constants in tuples."""
    if isinstance(argument, tuple):
        return any(map(_can_change, argument))
    return not isinstance(argument, torch.Tensor) and bool(
        pytree.tree_leaves(argument) != [argument]
    )


# -- what the user is told of an exported program, and what decides how it is lowered --------------

#: What operators call the argument that chooses between training and inference.
_TRAINING: Final = ("train", "training", "is_training")
#: The namespace of the operators that pt2e writes around those that it quantises.
QUANTISED: Final = "quantized_decomposed"

#: Operators that stop the model if the data are not as it expects.
CHECKS: Final = (
    *("_assert_async", "_functional_assert_async", "_assert_scalar", "_functional_assert_scalar"),
    *("sym_constrain_range", "sym_constrain_range_for_size"),
)


def drop_checks(program: Any) -> list[str]:
    """Take the checks of data out of a program, in place; return a warning that names them."""
    found: Counter[str] = Counter()
    for node in reversed(list(program.graph.nodes)):
        name = _name(node)
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
    return [*training_remarks(program), *open_size_remarks(program)]


def training_remarks(program: Any) -> list[str]:
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
        getattr(node.target, "namespace", "") == QUANTISED
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
        name = _name(node).removesuffix("_")
        if node.op != "call_function" or name not in _SCATTERS or len(node.args) < 3:
            continue
        accumulates = name == "index_put" and True in node.args[3:]
        indices = node.args[_SCATTERS[name]]
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
