"""Loads a file of an exported torch program without running code that is in it.

torch.export.load unpickles what a file asks for, evaluates its expressions of sizes and its conditions
as Python, and loads compiled code. This was found by experiment with torch 2.13.

A `.pt2` file names the classes of its trees, such as `ModelOutput` of transformers. torch loads it only
if the process knows them, and they are code that need not be there. Their tensors and keys are all that
counts: dictionaries and tuples stand in for them.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import re
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import sympy
import torch
from torch._export.serde.schema import SCHEMA_VERSION, Layout, ScalarType
from torch._export.serde.serialize import deserialize_scalar_type
from torch.export.pt2_archive._package import load_pt2
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions

from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.formats.weights.archives import Stored, read_safetensors
from tosa_convert.io.files import map_file
from tosa_convert.io.options import Limits

#: What a file calls its trees.
_SPECS: Final = ("in_spec", "out_spec")
_MODEL: Final = re.compile(r"(^|/)models/[^/]*\.json$|(^|/)serialized_exported_program\.json$")
_SAMPLES: Final = re.compile(r"(^|/)data/sample_inputs/[^/]*$")


def unknown_classes(path: Path) -> tuple[set[str], set[str]]:
    """Return unknown classes of a file's arguments and of its results, without importing any."""
    found: tuple[set[str], set[str]] = set(), set()

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, value in pairs:
            if key in _SPECS and isinstance(value, str):
                found[_SPECS.index(key)].update(_unknown(json.loads(value)))
        return dict(pairs)

    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if _MODEL.search(name):
                json.loads(archive.read(name), object_pairs_hook=check)
    return found


def _unknown(tree: Any) -> Iterator[str]:
    if isinstance(tree, list):
        for part in tree:
            yield from _unknown(part)
    elif isinstance(tree, dict):
        name = tree.get("type")
        if isinstance(name, str) and name not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
            yield name
        yield from _unknown(tree.get("children_spec"))


class _StandIn:
    """Children of an object of an unknown class, with what the file says of it."""

    def __init__(self, children: Sequence[Any], context: Any) -> None:
        self.children, self.context = list(children), context

    def names(self) -> list[str | int]:
        """Return the names of the children, or their positions.

        A `ModelOutput` and a cache have a list of them; a dataclass has that and a list of absent ones.
        """
        count = len(self.children)
        for names in (self.context, *(self.context if isinstance(self.context, list) else ())):
            if (
                isinstance(names, list)
                and len(names) == count
                and all(isinstance(name, str) for name in names)
            ):
                return list(names)
        return list(range(count))


def register(names: set[str]) -> None:
    """Let torch load trees with these classes."""
    for name in sorted(names):
        kind = type("StandIn", (_StandIn,), {})
        pytree.register_pytree_node(
            kind,
            lambda one: (one.children, one.context),
            lambda children, context, kind=kind: kind(list(children), context),
            serialized_type_name=name,
            to_dumpable_context=json.dumps,
            from_dumpable_context=json.loads,
            flatten_with_keys_fn=_with_keys,
        )


def _with_keys(one: _StandIn) -> tuple[list[tuple[Any, Any]], Any]:
    keys: list[Any] = [
        pytree.MappingKey(key) if isinstance(key, str) else pytree.SequenceKey(key)
        for key in one.names()
    ]
    return list(zip(keys, one.children, strict=True)), one.context


def without_samples(path: Path, folder: Path) -> Path:
    """Return a copy of a file without its example arguments, which have pickled objects."""
    copy = folder / f"{path.stem}-without-samples.pt2"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as target:
        for row in archive.infolist():
            with target.open(row.filename, "w", force_zip64=True) as file:
                if not _SAMPLES.search(row.filename):
                    with archive.open(row) as source:
                        while piece := source.read(1 << 20):
                            file.write(piece)
    return copy


def give_samples(program: Any) -> None:
    """Give a program example arguments: zeros, of the types and sizes that torch traced."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    leaves = [
        spec.arg.value if hasattr(spec.arg, "value") else _zeros(values[spec.arg.name])
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]
    program.example_inputs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)


def _zeros(value: Any) -> Any:
    sizes = [size if isinstance(size, int) else 2 for size in value.shape]
    return torch.zeros(sizes, dtype=value.dtype)


#: The environment variable with which torch unpickles tensors and plain values only.
_WEIGHTS_ONLY: Final = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
#: What torch raises after it has logged the cause.
_HIDDEN: Final = "We ran into an error when deserializing the saved file"
#: What torch says if it finds something else.
_NOT_PLAIN: Final = "Weights only load failed"
_TRUST: Final = (
    "if you trust the file: write a Python file with a function that returns torch.export.load(PATH),"
    " and convert FILE.py:FUNCTION"
)
_EXPRESSION: Final = "expr_str"
#: A member with code that torch loads, and a constant of any class, which torch unpickles.
_COMPILED, _OBJECT = "data/aotinductor/", "opaque_obj"
#: Parts of expressions of sizes: symbols, numbers, what is known of a symbol, names, and operators.
#: Attributes of objects, other texts, and names with underscores at the beginning are not among them.
_PART: Final = re.compile(
    r"(?:Symbol|Dummy)\('\w+'|Float\('[\d.eE+-]+'|\w+=(?:True|False|\d+)"
    r"|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|(?P<name>[A-Za-z]\w*)|[-+*/%(),<>=!&|~\s]"
)
_SYMBOL: Final = re.compile(r"[a-z]+\d+\Z")
#: Functions of sympy that torch writes, besides its own.
_FUNCTIONS: Final = frozenset(
    [
        *("Abs", "Add", "And", "Eq", "Ge", "Gt", "Integer", "Le", "Lt", "Max", "Min", "Mod", "Mul"),
        *("Ne", "Not", "Or", "Piecewise", "Pow", "Rational", "ceiling", "exp", "floor", "log"),
        *("Equality", "GreaterThan", "LessThan", "StrictGreaterThan", "StrictLessThan"),
        *("Unequality", "sqrt", "False", "True", "int_oo", "oo"),
    ]
)
#: Lines of what torch says that a message repeats.
_MOST_LINES: Final = 6
#: An archive of torch is not compressed: a member is not larger than the file.
_TOO_LARGE: Final = "a file in it is larger than the archive"


def load_archive(path: Path, shown: str, *, trusted: bool = False) -> Any:
    try:
        if not trusted:
            _refuse_code(path, shown)
        with contextlib.nullcontext() if trusted else _plain_values_only():
            program = _loaded(path, shown)
    except TosaConvertError:
        raise
    except Exception as error:  # torch raises what it likes for a damaged file.
        cause = _cause(error, path)
        if _NOT_PLAIN in str(cause):
            raise _code(shown, "it has pickled objects other than tensors") from None
        lines = [line for line in str(cause).splitlines() if line.strip()][:_MOST_LINES]
        text = "\n    ".join([f"torch.export.load refuses it: {type(cause).__name__}", *lines])
        raise fail("unrecognised-input", shown, text, _release(path)) from None
    # Conditions on the inputs, as Python: they would run with other shapes.
    with contextlib.suppress(AttributeError):
        program._guards_code = []
    return program


def _loaded(path: Path, shown: str) -> Any:
    """Load a file, with its weights, and stand-ins for the classes of its arguments and results."""
    arguments, results = unknown_classes(path)
    register(arguments | results)
    with tempfile.TemporaryDirectory() as folder:
        weights = map_weights(path, Path(folder), shown)
        source = weights.archive
        is_loaded_as_it_is = not arguments and not weights.is_meta
        if not is_loaded_as_it_is:
            source = without_samples(source, Path(folder))
        program = torch.export.load(source)
    weights.give_to(program)
    if not is_loaded_as_it_is:
        give_samples(program)
    return program


def _cause(error: Exception, path: Path) -> Exception:
    """Return the exception that torch logs before it raises one that does not say the cause."""
    if _HIDDEN not in str(error):
        return error
    try:
        with _plain_values_only():
            load_pt2(path)
    except Exception as cause:
        return cause
    return error


def _release(path: Path) -> str:
    """Return the hint for a file that is not loaded; it names the schema if the file has another one."""
    found: list[Any] = []

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.extend(value for key, value in pairs if key == "schema_version")
        return dict(pairs)

    with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if "models/" in name:
                json.loads(archive.read(name), object_pairs_hook=check)
    versions = [(row.get("major"), row.get("minor")) for row in found if isinstance(row, dict)]
    if versions and versions != [tuple(SCHEMA_VERSION)]:
        theirs, ours = (".".join(map(str, version)) for version in (versions[0], SCHEMA_VERSION))
        return (
            f"the file has schema {theirs}, and torch {torch.__version__} reads {ours}: export the"
            " model again, or --python PROGRAM with the torch that wrote it"
        )
    return "export the model again, and save it with torch.export.save"


def _code(shown: str, what: str) -> TosaConvertError:
    message = f"loading it would run code of the file: {what}"
    return fail("frontend-failed", shown, message, _TRUST)


@contextlib.contextmanager
def _plain_values_only() -> Iterator[None]:
    before = os.environ.get(_WEIGHTS_ONLY)
    os.environ[_WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_WEIGHTS_ONLY]
        else:
            os.environ[_WEIGHTS_ONLY] = before


def _refuse_code(path: Path, shown: str) -> None:
    """Refuse an archive with code, whatever its members are called."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        rows = archive.infolist()
        names = [row.filename for row in rows]
        # torch reads archives by other code, which could take another member of the name.
        if len(set(names)) != len(names) or archive.comment or rows[0].header_offset:
            raise ValueError(
                "two files in the archive have one name, or it has other data around it"
            )
        for row in rows:
            if _COMPILED in row.filename:
                raise _code(shown, f"{row.filename} is compiled code")
            if row.file_size > size:
                raise ValueError(_TOO_LARGE)
            if row.filename.endswith("json") or "models/" in row.filename:
                # What is not JSON is refused by torch.
                with contextlib.suppress(ValueError, UnicodeDecodeError):
                    _check_json(archive.read(row), shown)


def _check_json(data: bytes, shown: str) -> None:
    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, value in pairs:
            if key == _EXPRESSION and not _is_expression(value):
                raise _code(shown, f"the size {str(value)[:80]!r} is not an expression of sizes")
            if key == "path_name" and str(value).startswith(_OBJECT):
                raise _code(shown, "it has a pickled object")
        return dict(pairs)

    json.loads(data, object_pairs_hook=check)


def _is_expression(text: Any) -> bool:
    """Return whether a text has only numbers, symbols, and torch's functions of sizes.

    Example:
        >>> texts = ("2*s0 + 1", "Add(Symbol('s0', integer=True), Integer(1))", "chr(95)", "s0.real")
        >>> [_is_expression(text) for text in texts]
        [True, True, False, False]
    """
    if not isinstance(text, str):
        return False
    parts = list(_PART.finditer(text))
    if "".join(part[0] for part in parts) != text:
        return False
    names = {part["name"] for part in parts} - {None}
    return all(_SYMBOL.match(name) or name in _FUNCTIONS or _is_own(name) for name in names)


def _is_own(name: str) -> bool:
    """Return whether torch has a function of sizes of this name."""
    found = getattr(functions, name, None)
    return isinstance(found, type) and issubclass(found, sympy.Basic)


# -- weights that stay in their files --------------------------------------------------------------
# torch reads every weight into memory. So it gets a copy of the archive in which large weights are on
# the device `meta`, without elements, and the program then gets views of the mapped file: of the `.pt2`
# file itself, or of the safetensors file beside it if the program was saved without them. Members and
# their keys were determined from files of torch 2.13 and 2.14.

EXTENSION: Final = ".safetensors"
_CONFIG: Final = "data/weights/model_weights_config.json"
_CONSTANTS: Final = "data/constants/model_constants_config.json"
_META: Final = "meta"
#: Bytes from which a weight stays in its file.
LEAST: Final = 1 << 20
#: The header of a member of a ZIP archive, which its name, further fields and its data follow.
_HEADER: Final = struct.Struct("<26xHH")
#: Element type in safetensors -> that of torch's schema.
_KINDS: Final = {
    "BOOL": ScalarType.BOOL,
    "U8": ScalarType.BYTE,
    "I8": ScalarType.CHAR,
    "I16": ScalarType.SHORT,
    "I32": ScalarType.INT,
    "I64": ScalarType.LONG,
    "F16": ScalarType.HALF,
    "BF16": ScalarType.BFLOAT16,
    "F32": ScalarType.FLOAT,
    "F64": ScalarType.DOUBLE,
}


class MappedWeights(NamedTuple):
    """Hold a program's archive without its large weights (or the file itself), and views of these.

    is_meta: whether the program was on the device `meta`, where its example arguments are, too.
    """

    archive: Path
    tensors: Mapping[str, Any]
    is_meta: bool

    def give_to(self, program: Any) -> None:
        """Put the weights into the program that torch loaded from the archive."""
        for name, tensor in self.tensors.items():
            if name in program.constants:
                program.constants[name] = tensor
                continue
            old = program.state_dict[name]
            if isinstance(old, torch.nn.Parameter):
                tensor = torch.nn.Parameter(tensor, requires_grad=False)
            program.state_dict[name] = tensor


def map_weights(path: Path, folder: Path, shown: str) -> MappedWeights:
    """Map the large weights of a file, and those that are beside it."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        config, rows = _rows(archive, _CONFIG)
        root = config.removesuffix("model_weights_config.json")
        members = {row.filename: row for row in archive.infolist()}
        own: dict[str, zipfile.ZipInfo] = {}
        lacking = {}
        for name, row in rows.items():
            member = members.get(f"{root}{row['path_name']}")
            if row["use_pickle"] or not _count(row):
                continue
            if member is None or not member.file_size:
                lacking[name] = row
            elif member.file_size >= LEAST and member.compress_type == zipfile.ZIP_STORED:
                own[name] = member
        # Buffers that are not in the state dict: torch has no other place for their elements.
        for name, row in _rows(archive, _CONSTANTS)[1].items():
            if not row["use_pickle"] and _count(row) and _device(row) == _META:
                lacking[name] = row
        if not lacking and not own:
            return MappedWeights(path, {}, is_meta=False)
        is_meta = any(_device(row) == _META for row in lacking.values())
        tensors = _of_archive(path, {name: (rows[name], own[name]) for name in own})
        if lacking:
            tensors |= _of_safetensors(path.with_suffix(EXTENSION), lacking, shown)
        mapped = [name for name in tensors if name in rows]
        for number, name in enumerate(mapped):
            rows[name]["path_name"] = f"mapped_weight_{number}"
            rows[name]["tensor_meta"] |= _without_elements(_shape(rows[name]))
        left_out = {row.filename for row in own.values()}
        with zipfile.ZipFile(folder / path.name, "w") as target:
            for filename in names:
                if filename in left_out:
                    continue
                data = archive.read(filename)
                if filename == config:
                    data = json.dumps({"config": rows}).encode()
                elif is_meta and "/models/" in filename:
                    data = _on_cpu(data)
                target.writestr(filename, data)
            for number in range(len(mapped)):
                target.writestr(f"{root}mapped_weight_{number}", b"")
    return MappedWeights(folder / path.name, tensors, is_meta)


def _rows(archive: zipfile.ZipFile, config: str) -> tuple[str, dict[str, Any]]:
    """Return a member of this end, and what it says of each tensor; nothing if there is none."""
    member = next((name for name in archive.namelist() if name.endswith(f"/{config}")), "")
    return member, json.loads(archive.read(member))["config"] if member else {}


def _of_archive(
    path: Path, found: Mapping[str, tuple[dict[str, Any], zipfile.ZipInfo]]
) -> dict[str, Any]:
    """Return views of the members of an archive; those of one member share its memory."""
    data = _mapped(path)
    shared: dict[str, Any] = {}
    tensors = {}
    for name, (row, member) in found.items():
        meta = row["tensor_meta"]
        dtype = deserialize_scalar_type(ScalarType(meta["dtype"]))
        if member.filename not in shared:
            start = member.header_offset
            start += _HEADER.size + sum(_HEADER.unpack_from(data, start))
            count = member.file_size // dtype.itemsize
            shared[member.filename] = _view(data, dtype, count, start)
        strides = [stride["as_int"] for stride in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        # torch refuses what lies outside.
        tensors[name] = torch.as_strided(
            shared[member.filename].view(dtype), _shape(row), strides, offset
        )
    return tensors


def _of_safetensors(beside: Path, lacking: Mapping[str, Any], shown: str) -> dict[str, Any]:
    arrays = _arrays(beside, lacking, shown)
    data = _mapped(beside)
    tensors = {}
    for name, row in lacking.items():
        dtype = deserialize_scalar_type(ScalarType(row["tensor_meta"]["dtype"]))
        flat = _view(data, dtype, _count(row), arrays[name].offset)
        tensors[name] = flat.reshape(_shape(row))
    return tensors


def _view(data: mmap.mmap, dtype: Any, count: int, start: int) -> Any:
    """Return elements of a mapped file; a copy if they are not aligned, as MLIR needs them."""
    tensor = torch.frombuffer(data, dtype=dtype, count=count, offset=start)
    return tensor if start % dtype.itemsize == 0 else tensor.clone()


def _mapped(path: Path) -> mmap.mmap:
    """Map a file. torch wants to be able to write: a page that it writes to becomes a private copy."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _device(row: dict[str, Any]) -> str:
    return str(row["tensor_meta"]["device"]["type"])


def _shape(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(size["as_int"] for size in row["tensor_meta"]["sizes"])


def _count(row: dict[str, Any]) -> int:
    return math.prod(_shape(row))


def _arrays(beside: Path, lacking: Mapping[str, Any], shown: str) -> Mapping[str, Stored]:
    examples = ", ".join(list(lacking)[:3])
    if not beside.is_file():
        message = f"{len(lacking)} of its weights are not in it: {examples}"
        raise fail("mismatched-weights", shown, message, f"put them beside it, as {beside.name}")
    found = read_safetensors(map_file(str(beside)), beside.name, Limits()).arrays
    findings = Findings()
    for name, row in lacking.items():
        stored, kind = found.get(name), ScalarType(row["tensor_meta"]["dtype"])
        if stored is None:
            findings.add(
                "mismatched-weights", beside.name, f"it has no {name}, which {shown} lacks"
            )
        elif _KINDS.get(stored.kind) != kind or stored.shape != _shape(row):
            message = (
                f"{name} is {stored.kind} {list(stored.shape or ())}, {shown} expects "
                f"{kind.name} {list(_shape(row))}"
            )
            findings.add("mismatched-weights", beside.name, message)
    findings.raise_if_any()
    return found


def _without_elements(shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what the archive says of a tensor without elements."""
    return {
        "device": {"type": _META, "index": None},
        "strides": [{"as_int": math.prod(shape[index + 1 :])} for index in range(len(shape))],
        "storage_offset": {"as_int": 0},
        "layout": Layout.Strided.value,
    }


def _on_cpu(model: bytes) -> bytes:
    """Return a program whose tensors are in memory instead of nowhere."""

    def place(row: dict[str, Any]) -> dict[str, Any]:
        is_meta = row.get("type") == _META and {*row} <= {"type", "index"}
        return {**row, "type": "cpu"} if is_meta else row

    return json.dumps(json.loads(model, object_hook=place)).encode()
