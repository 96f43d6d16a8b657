"""Run a model with third-party software, in a process of its own because the software may crash.

    python worker.py SOFTWARE MODEL FOLDER

The working folder has the inputs as in0.npy, in1.npy, ... in the model's order, and `types.json` with
the names of their types: numpy reads those that it lacks as opaque bytes. If there is `calls.json`,
inputs and outputs are those of several calls in a row; call0.npz, ... get the states after each call
that the file names and the model has. With `in_double`, torch computes in FP64. TFLite returns the
tensors that `results.json` numbers, and with `other_kernels` does not run its reference kernels. IREE
compiles unless there is `module.vmfb`, which it leaves. The folder gets out0.npy, ... and, if the
software gives them, results of operators in order as step0.npy, ..., each written before the next;
inputs that the model writes to are changed0.npy, ..., and note.txt is its remark. steps.json says of
each step its name, where it was written, the scale and zero point of its integers, and its operands;
torch and ONNX Runtime have steps if there is `watched`. The exit code is MISSING without the software,
and REFUSED if it does not support the model. FOLDER is that of the user's Python files.
"""

import atexit
import contextlib
import importlib.util
import itertools
import json
import os
import random
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

Arrays = Iterable[Any]
_Call = Callable[[list[Any], list[str]], list[Any]]
_States = Callable[[list[str]], dict[str, Any]]
#: Exit codes. REFUSED is the one by which automake and others know a test that was skipped.
MISSING, REFUSED = 3, 77


def _content(name: str) -> Any:
    """Return what a file of JSON has; None without it."""
    with contextlib.suppress(FileNotFoundError), open(name, encoding="utf-8") as file:
        return json.load(file)
    return None


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(REFUSED)


def _iree(model: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    import iree.compiler as compiler
    import iree.runtime as runtime

    if not (module := Path("module.vmfb")).exists():
        module.write_bytes(_iree_compiled(compiler, model))
    binary = module.read_bytes()
    config = runtime.Config("local-task")
    context = runtime.SystemContext(config=config)
    loaded = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    context.add_vm_module(loaded)
    # One function has the program's name; the others are IREE's own.
    (name,) = [name for name in loaded.function_names if name[:2] != "__" and "$" not in name]
    # Not by the calls of IREE's Python, which know fewer element types than IREE.
    given, results = runtime.VmVariantList(len(inputs)), runtime.VmVariantList(1)
    for array, type_name in zip(inputs, types, strict=True):
        given.push_ref(_iree_view(runtime, config.device, array, type_name))
    context.vm_context.invoke(loaded.lookup_function(name), given, results)
    views = [results.get_as_object(i, runtime.HalBufferView) for i in range(len(results))]
    return [_from_iree(runtime, view) for view in views], []


def _iree_compiled(compiler: Any, model: str) -> Any:
    try:
        return compiler.compile_file(
            model,
            input_type="auto" if os.path.basename(model) == "module.mlir" else "tosa",
            target_backends=["llvm-cpu"],
            # The default limit is for embedded targets; a host's threads have megabytes of stack.
            extra_args=[
                "--iree-llvmcpu-target-cpu=host",
                "--iree-llvmcpu-stack-allocation-limit=4194304",
            ],
        )
    except compiler.CompilerToolError as error:
        text = str(error)
        lines = [line for line in text.splitlines() if "error:" in line]
        said = " / ".join(lines[:3] or [text[:500]])
        ended = re.search(r"Error code: (-?\d+)", text)
        if ended is None or int(ended[1]) == 1:
            _refuse(f"IREE cannot compile the model: {said}")
        if int(ended[1]) == -9:
            os.kill(os.getpid(), 9)  # the compiler was killed, and so is the backend
        raise SystemExit(f"IREE's compiler ended with the code {ended[1]}: {said}") from None


def _iree_view(runtime: Any, device: Any, array: Any, type_name: str) -> Any:
    """Return an array on IREE's device, with the element type that its bits have."""
    kinds = runtime.HalElementType
    elements = {
        "bool": kinds.BOOL_8,
        "bfloat16": kinds.BFLOAT_16,
        "float8_e4m3fn": kinds.FLOAT_8_E4M3_FN,
        "float8_e5m2": kinds.FLOAT_8_E5M2,
        "float8_e8m0fnu": kinds.FLOAT_8_E8M0_FNU,
        **{f"float{bits}": getattr(kinds, f"FLOAT_{bits}") for bits in (16, 32, 64)},
        **{f"int{bits}": getattr(kinds, f"SINT_{bits}") for bits in (4, 8, 16, 32, 64)},
    }
    if type_name not in elements:
        _refuse(f"IREE takes no inputs of type {type_name}")
    codes = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
    placed = {
        "memory_type": runtime.MemoryType.DEVICE_LOCAL,
        "allowed_usage": runtime.BufferUsage.DEFAULT,
        "device": device,
    }
    if type_name == "int4":
        pairs = np.append(codes.reshape(-1) & 15, np.zeros(codes.size % 2, np.uint8)).reshape(-1, 2)
        packed = pairs[:, 0] | pairs[:, 1] << 4
        buffer = device.allocator.allocate_buffer_copy(buffer=packed, **placed)
        return runtime.HalBufferView(buffer, codes.shape, elements[type_name])
    placed["element_type"] = elements[type_name]
    return device.allocator.allocate_buffer_copy(buffer=codes, **placed)


def _from_iree(runtime: Any, view: Any) -> Any:
    """Return the array of a view; opaque bytes if numpy does not have its type."""
    kinds = runtime.HalElementType
    names = {f"{sign}INT_{bits}": f"int{bits}" for sign in ("S", "") for bits in (8, 16, 32, 64)}
    names |= {"BOOL_8": "bool", **{f"FLOAT_{bits}": f"float{bits}" for bits in (16, 32, 64)}}
    native = {int(getattr(kinds, name)): kind for name, kind in names.items()}
    count = int(np.prod(shape := tuple(view.shape), dtype=np.int64))
    if int(view.element_type) in (int(kinds.SINT_4), int(kinds.INT_4)):
        packed = np.array(view.map().asarray(((count + 1) // 2,), np.dtype(np.int8)))
        pairs = np.stack([packed << 4 >> 4, packed >> 4], axis=-1)  # The lower half comes first.
        return pairs.reshape(-1)[:count].reshape(shape)
    width = view.byte_length // count if count else 1
    codes = np.array(view.map().asarray(shape, np.dtype(f"u{width}"))).reshape(-1)
    return codes.view(native.get(int(view.element_type), f"V{width}")).reshape(shape)


def _refuse_foreign_types(software: str, inputs: list[Any], types: list[str]) -> None:
    for array, name in zip(inputs, types, strict=True):
        if array.dtype.kind == "V":
            _refuse(f"{software} takes numpy's types here, and numpy has no type {name}")


def _tflite(model: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    _refuse_foreign_types("tflite", inputs, types)
    try:
        tflite = importlib.import_module("ai_edge_litert.interpreter")
    except ImportError:
        tflite = importlib.import_module("tensorflow.lite.python.interpreter")
    machine = _tflite_interpreter(tflite, model)
    details = machine.get_input_details()
    for row, array in zip(details, inputs, strict=False):  # Further ones are those of later calls.
        if tuple(row["shape"]) != array.shape:
            machine.resize_tensor_input(row["index"], array.shape)
    machine.allocate_tensors()
    numbers = {row["name"]: row["index"] for row in machine.get_tensor_details()}
    # As `find_state` names states that have no name of their own.
    for row in machine._get_ops_details():
        for place, number in enumerate(row["inputs"]):
            name = f"{row['op_name'].lower()}_{row['index']}_state_{place}"
            numbers.setdefault(name, number)

    def call(inputs: list[Any], types: list[str]) -> list[Any]:
        if (count := len(details)) != len(inputs):
            raise SystemExit(f"the TFLite model has {count} inputs, the TOSA one {len(inputs)}")
        for row, array in zip(details, inputs, strict=True):
            machine.set_tensor(row["index"], _to_tflite(array, np.dtype(row["dtype"])))
        machine.invoke()
        returned = _content("results.json") or [r["index"] for r in machine.get_output_details()]
        return [machine.get_tensor(index) for index in returned]

    def states(names: list[str]) -> dict[str, Any]:
        # Variables that handles name are no tensors, and are not known.
        found = {name: machine.get_tensor(numbers[name]) for name in names if name in numbers}
        return {name: array for name, array in found.items() if array.dtype != object}

    outputs = _calls(call, states, inputs, types)
    # The index of an optional output that an operator does not have is -1.
    made = [index for row in machine._get_ops_details() for index in row["outputs"] if index >= 0]
    rows = {row["index"]: row for row in machine.get_tensor_details()}
    taken = {i: row["inputs"] for row in machine._get_ops_details() for i in row["outputs"]}
    described = []
    for i in made:
        given = [rows[k]["name"] for k in taken[i] if k in rows]
        described.append((rows[i]["name"], rows[i]["name"], _one_scale(rows[i]), given))
    _describe(described)
    return outputs, map(machine.get_tensor, made)


def _one_scale(row: Any) -> Any:
    scale, zero_point = row["quantization"]
    return (scale, zero_point) if scale else None


def _describe(rows: Any) -> None:
    with open("steps.json", "w", encoding="utf-8") as file:
        json.dump(rows, file)


def _tensorflow(model: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    call = _python_file("tensorflow_model.py", "tensorflow_model").opened(model)
    return _calls(call, lambda names: {}, inputs, types), []


def _keras(model: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    return _tensorflow(model, inputs, types)


def _to_tflite(array: Any, wanted: Any) -> Any:
    """Convert an array to a type of TFLite: TOSA has no unsigned and no 64-bit integers."""
    pair = array.dtype.kind, wanted.kind
    if pair == ("i", "u") and array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    return array.astype(wanted) if pair == ("i", "i") else array


def _tflite_interpreter(tflite: Any, model: str) -> Any:
    """Return an interpreter with the reference kernels, or with the others, which round otherwise."""
    kinds = tflite.OpResolverType
    interpreter = partial(tflite.Interpreter, experimental_preserve_all_tensors=True)
    data = bytearray(np.fromfile(model, np.uint8))
    while not os.path.exists("other_kernels"):
        options = {"experimental_op_resolver_type": kinds.BUILTIN_REF}
        try:
            return interpreter(model_content=bytes(data), **options)
        except ValueError as error:
            found = re.search(r"builtin opcode '\w+' version '(\d+)'", str(error))
            if found is None or not _lower_versions(data, int(found[1])):
                print(f"no reference kernel: {error}", file=sys.stderr)
                break
    return interpreter(model, experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def _lower_versions(data: bytearray, version: int) -> bool:
    """Say the version before this one in a TFLite file, for TILE and others; whether there is one."""

    def field(table: int, position: int) -> int:
        start = table - struct.unpack_from("<i", data, table)[0]
        size = struct.unpack_from("<H", data, start)[0]
        place = 4 + 2 * position
        offset = struct.unpack_from("<H", data, start + place)[0] if place < size else 0
        return table + offset if offset else 0

    def target(place: int) -> int:
        return place + int(struct.unpack_from("<I", data, place)[0])

    # Of TensorFlow's schema: the list of operator codes is field 1 of a model, the version field 2.
    codes = target(field(target(0), 1))
    is_lowered = False
    for index in range(struct.unpack_from("<I", data, codes)[0]):
        place = field(target(codes + 4 + 4 * index), 2)
        if version > 1 and place and struct.unpack_from("<i", data, place)[0] == version:
            struct.pack_into("<i", data, place, version - 1)
            is_lowered = True
    return is_lowered


def _torch(model: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # Its padding is zero; that of programs is not.
    path, _, name = model.rpartition(":")
    if path and path.endswith(".py"):
        with _users_folder():
            eager, example = _torch_module(torch, getattr(_python_file(path, "eager_model"), name))
    else:
        with contextlib.suppress(ImportError):  # The operators of quantised programs.
            import torch.ao.quantization.fx._decomposed
        program = torch.export.load(model)
        eager, example = program.module(), program.example_inputs
    is_double, is_watched = map(os.path.exists, ("in_double", "watched"))
    compute = _in_double(torch, eager) if is_double else eager
    changed = itertools.count()
    rows: list[Any] = []
    steps: list[Any] = []

    def call(inputs: list[Any], types: list[str]) -> list[Any]:
        nonlocal compute, eager
        tensors = [_to_torch(torch, *pair) for pair in zip(inputs, types, strict=True)]
        args, kwargs = _torch_arguments(torch, tensors, example)
        if is_watched and compute is eager:
            if not isinstance(eager, torch.fx.GraphModule):
                eager = torch.export.export(eager, tuple(args), kwargs).module()
            compute = _watched(torch, eager, rows, steps)
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        versions = [(leaf, leaf._version) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        with torch.no_grad():
            results = torch.utils._pytree.tree_leaves(compute(*args, **kwargs))
        for tensor, version in versions:
            if tensor._version != version:
                np.save(f"changed{next(changed)}.npy", _from_torch(torch, tensor.detach()))
        # A result may share memory with a state, which a later call changes.
        return [_from_torch(torch, x.detach().clone()) for x in results if hasattr(x, "detach")]

    def states(names: list[str]) -> dict[str, Any]:
        rows = (*eager.named_parameters(), *eager.named_buffers())
        return {name: _from_torch(torch, tensor.detach()) for name, tensor in rows}

    outputs = _calls(call, states, inputs, types)
    if is_watched:
        _describe(rows)
    return outputs, steps


def _in_double(torch: Any, module: Any) -> Callable[..., Any]:
    """Return a function that computes in FP64 what a module of torch computes in FP32.

    Its weights are converted, and so are tensors and types that operators get: constants and casts of
    the model. Elements of 16 bits and fewer keep their type, which the model chose.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    def wider(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.dtype == torch.float32 else value
        return torch.float64 if value is torch.float32 else value

    base: Any = TorchDispatchMode

    class InDouble(base):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            args, kwargs = tree_map(wider, (args, kwargs or {}))
            return func(*args, **kwargs)

    if isinstance(module, torch.nn.Module):
        module._apply(wider)

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(wider, (args, kwargs))
        with InDouble():
            return module(*args, **kwargs)

    return call


def _watched(torch: Any, module: Any, rows: list[Any], steps: list[Any]) -> Callable[..., Any]:
    """Return what runs a program, and keeps the results of its operators and where each was written."""
    # What several results, such as those of a split, are computed from.
    several: dict[Any, list[str]] = {}

    class Watch(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            value = super().run_node(node)
            given = [name for k in node.all_input_nodes for name in several.get(k, [k.name])]
            if node.op == "call_function" and not isinstance(value, torch.Tensor):
                several[node] = given
            elif node.op == "call_function":
                lines = (node.meta.get("stack_trace") or "").splitlines()
                frames = re.findall(r'File "([^"]*)", line (\d+)', "\n".join(lines))
                named = str(node.target).startswith("quantized_decomposed.quantize_per_tensor.d")
                scale = node.args[1:3] if named else None
                rows.append((node.name, frames[::-1] or node.name, scale, given))
                steps.append(_from_torch(torch, value.detach().clone()))
            return value

    leaves = torch.utils._pytree.tree_leaves
    return lambda *args, **kwargs: Watch(module).run(*leaves((args, kwargs)))


def _calls(call: _Call, states: _States, inputs: list[Any], types: list[str]) -> Arrays:
    """Return the results of one call, or of all those of `calls.json`, which save their states."""
    asked = _content("calls.json")
    if asked is None:
        return call(inputs, types)
    outputs: list[Any] = []
    for number in range(asked["calls"]):
        count = len(inputs) // asked["calls"]
        part = slice(number * count, (number + 1) * count)
        outputs += call(inputs[part], types[part])
        found = states(asked["states"])
        wanted = {f"variable:{name}": found[name] for name in asked["states"] if name in found}
        np.savez(f"call{number}.npz", **wanted)
    return outputs


def _torch_module(torch: Any, named: Any) -> tuple[Any, Any]:
    """Return a module, class in evaluation mode or function of a file, and its example arguments."""
    if isinstance(named, torch.nn.Module):
        return named, None
    made = named()
    if isinstance(made, torch.export.ExportedProgram):
        return made.module(), made.example_inputs
    if isinstance(made, tuple):
        return _split(made)
    return (made.eval() if isinstance(named, type) else made), None


def _split(made: Any) -> tuple[Any, Any]:
    function, given, *keywords = made
    return function, ((given,) if hasattr(given, "shape") else tuple(given), dict(*keywords))


def _torch_arguments(torch: Any, tensors: list[Any], example: Any) -> Any:
    """Return tensors as the arguments of an exported program, in their types, keywords by name."""
    if example is None:
        return tensors, {}
    leaves, spec = (tree := torch.utils._pytree).tree_flatten(example)
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if len(places) != len(tensors):
        return tensors, {}
    for index, tensor in zip(places, tensors, strict=True):
        leaves[index] = tensor.to(leaves[index].dtype)
    return tree.tree_unflatten(leaves, spec)


_TORCH_TYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # Numpy does not have them.


def _to_torch(torch: Any, array: Any, type_name: str) -> Any:
    if array.dtype.kind != "V":
        return torch.from_numpy(array)
    if type_name not in _TORCH_TYPES:
        _refuse(f"torch has no type {type_name}")
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(getattr(torch, type_name))


def _from_torch(torch: Any, tensor: Any) -> Any:
    if tensor.dtype not in {getattr(torch, name, None) for name in _TORCH_TYPES}:
        return tensor.numpy()
    width = tensor.element_size()
    return tensor.contiguous().view(getattr(torch, f"int{8 * width}")).numpy().view(f"V{width}")


def _jax(model: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    path, _, name = model.rpartition(":")
    with _users_folder():
        function, example = _split(getattr(_python_file(path, "jax_function"), name)())
    leaves, tree = jax.tree.flatten(example)
    # Keys, text, functions and the numbers of equinox's modules are not inputs of the program.
    module, are_inputs = getattr(sys.modules.get("equinox"), "Module", ()), []
    for node in jax.tree.leaves(example, is_leaf=lambda node: isinstance(node, module)):
        kinds = () if isinstance(node, module) else (int, float, complex)
        are_inputs += [_is_jax_array(leaf, kinds) for leaf in jax.tree.leaves(node)]

    def call(inputs: list[Any], types: list[str]) -> list[Any]:
        if (count := sum(are_inputs)) != len(inputs):
            raise SystemExit(f"the function has {count} inputs, the TOSA one {len(inputs)}")
        arrays, rows = iter(inputs), zip(leaves, are_inputs, strict=True)
        given = [_to_jax(jax, leaf, next(arrays)) if is_input else leaf for leaf, is_input in rows]
        args, kwargs = jax.tree.unflatten(tree, given)
        results = filter(_is_jax_array, jax.tree.leaves(function(*args, **kwargs)))
        return [_without_type(np.asarray(result)) for result in results]

    outputs = _calls(call, lambda _: _jax_states(jax, function), inputs, types)
    if note := getattr(function, "note", ""):
        Path("note.txt").write_text(note, encoding="utf-8")
    return outputs, []


def _is_jax_array(leaf: Any, numbers: Any = (int, float, complex)) -> bool:
    return isinstance(leaf, numbers) or not str(getattr(leaf, "dtype", "key<")).startswith("key<")


def _jax_states(jax: Any, function: Any) -> dict[str, Any]:
    """Return the state of a module of flax.nnx by path, as the program names its variables."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not isinstance(function, nnx.Module):
        return {}
    rows, _ = jax.tree_util.tree_flatten_with_path(nnx.state(function))
    named = partial(jax.tree_util.keystr, simple=True, separator=".")
    held = [(named(path), np.asarray(row)) for path, row in rows if _is_jax_array(row)]
    return {name.removesuffix(".value"): _without_type(array) for name, array in held}


def _to_jax(jax: Any, leaf: Any, array: Any) -> Any:
    """Convert an array to the type that a function takes; unsigned integers are signed ones in TOSA."""
    wanted = np.dtype(jax.numpy.result_type(leaf))
    if array.itemsize == wanted.itemsize and (array.dtype.kind == "V" or wanted.kind == "u"):
        array = array.view(wanted)
    return jax.numpy.asarray(array, wanted)


def _onnxruntime(model: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    _refuse_foreign_types("onnxruntime", inputs, types)
    software = importlib.import_module("onnxruntime")
    options = software.SessionOptions()
    # Optimisations fuse quantised operators, and change results by more than a step.
    options.graph_optimization_level = software.GraphOptimizationLevel.ORT_DISABLE_ALL
    file, steps = _with_all_results(model) if os.path.exists("watched") else (model, [])
    session = software.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    if len(rows := session.get_inputs()) != len(inputs):
        raise SystemExit(f"the ONNX model has {len(rows)} inputs, the TOSA one {len(inputs)}")
    # TOSA has no 64-bit types: the arrays may have been narrowed.
    wide = {"tensor(int64)": np.int64, "tensor(double)": np.float64}
    pairs = zip(rows, inputs, strict=True)
    given = {row.name: array.astype(wide.get(row.type, array.dtype)) for row, array in pairs}
    results = session.run(None, given)
    found = dict(zip([row.name for row in session.get_outputs()], results, strict=True))
    made = [row for row in steps if isinstance(found.get(row[0]), np.ndarray)]
    _describe(made)
    return results[: len(results) - sum(row[4] for row in steps)], [found[row[0]] for row in made]


def _with_all_results(model: str) -> Any:
    """Return a model whose outputs are the results of all its nodes, and what is to be said of each."""
    onnx = importlib.import_module("onnx")
    loaded = onnx.load(model)
    constants = {row.name: onnx.numpy_helper.to_array(row) for row in loaded.graph.initializer}
    own, rows = {row.name for row in loaded.graph.output}, []
    for node in loaded.graph.node:
        scale = None
        if node.op_type == "QuantizeLinear" and node.input[1] in constants:
            zero = constants.get(node.input[2], 0) if len(node.input) > 2 else 0
            scale = [np.asarray(part).reshape(-1) for part in (constants[node.input[1]], zero)]
            scale = [part[0].item() for part in scale] if scale[0].size == 1 else None
        for name in filter(None, node.output):
            given = list(filter(None, node.input))
            rows.append((name, node.name or node.output[0], scale, given, name not in own))
            if name not in own:
                loaded.graph.output.append(onnx.ValueInfoProto(name=name))
    return loaded.SerializeToString(), rows


@contextlib.contextmanager
def _users_folder() -> Iterator[None]:
    own = os.getcwd()
    # Python searches "", which is the folder in which this process works.
    sys.path[:] = [path for path in sys.path if path]
    os.chdir(sys.argv[3])
    try:
        yield
    finally:
        os.chdir(own)


def _python_file(file: str, name: str) -> Any:
    if (spec := importlib.util.spec_from_file_location(name, file)) is None or not spec.loader:
        raise SystemExit(f"{file} is not a Python file")
    # A compiled copy is taken for the file's if both have the same second and the same size.
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(spec)
    # The file's dataclasses, such as modules of flax.linen, find it by name.
    sys.modules.setdefault(name, module)
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    # As a conversion does: weights that the file draws are to be the same.
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
    spec.loader.exec_module(module)
    return module


def _python(file: str, inputs: list[Any], types: list[str]) -> tuple[Arrays, Arrays]:
    """Run a user's file: its function `run` gets a program and arrays by name, and returns arrays."""
    # A process that runs many programs has imported it.
    module = sys.modules.get("tosa_backend") or _python_file(file, "tosa_backend")
    names = _content("names.json")
    arrays = dict(zip(names["inputs"], map(_with_type, inputs, types), strict=True))
    try:
        answer = module.run(os.path.abspath("model.tosa"), arrays)
    except NotImplementedError as error:
        _refuse(f"NotImplementedError: {error}")
    if not isinstance(answer, Mapping):
        kind = type(answer).__name__
        raise SystemExit(f"run() returned {kind}, expected a dict of arrays by name")
    if missing := [name for name in names["outputs"] if name not in answer]:
        raise SystemExit(f"run() returned no {', '.join(missing)}; it returned {list(answer)}")
    return [_numbers(name, answer[name]) for name in names["outputs"]], []


def _numbers(name: str, value: Any) -> Any:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise SystemExit(f"run() returned no array for {name}: {error}") from None
    if array.dtype.kind not in "biufV":
        raise SystemExit(f"run() returned {array.dtype} for {name}, expected real numbers")
    return _without_type(array)


def _with_type(array: Any, type_name: str) -> Any:
    """Return an array in a type of ml_dtypes, if that is installed; else keep opaque bytes."""
    if array.dtype.kind == "V":
        with contextlib.suppress(ImportError):
            return array.view(getattr(importlib.import_module("ml_dtypes"), type_name))
    return array


def _without_type(array: Any) -> Any:
    """Return an array that numpy writes and reads back."""
    if array.dtype.kind in "biuf" and array.dtype.str[1:] != "f1":
        return array
    return np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}").reshape(array.shape)


_FUNCTIONS = (_iree, _tflite, _tensorflow, _keras, _torch, _jax, _onnxruntime, _python)
_SOFTWARE = {function.__name__.removeprefix("_"): function for function in _FUNCTIONS}


def main() -> None:
    software, model = sys.argv[1:3]
    types = _content("types.json")
    inputs = [np.load(f"in{i}.npy", allow_pickle=False) for i in range(len(types))]
    try:
        results = _SOFTWARE[software](model, inputs, types)
        for prefix, arrays in zip(("out", "step"), results, strict=True):
            for number, array in enumerate(arrays):
                np.save(f"{prefix}{number}.npy", array)
    except ImportError as error:
        if software == "python":
            raise
        print(error, file=sys.stderr)
        raise SystemExit(MISSING) from None


if __name__ == "__main__":
    main()
    if sys.argv[1] != "python":
        # The teardown of a framework takes up to half a second; a user's code may need its own.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
