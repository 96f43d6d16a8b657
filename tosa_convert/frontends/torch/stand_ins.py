"""Puts dictionaries and tuples in place of the classes of a file's arguments and results.

A `.pt2` file names the classes of its trees, such as `ModelOutput` of transformers. torch loads it only
if the process knows them, and they are code that need not be there. Their tensors and keys are all that
counts.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

#: What a file calls its trees.
_SPECS: Final = ("in_spec", "out_spec")
_MODEL: Final = re.compile(r"(^|/)models/[^/]*\.json$|(^|/)serialized_exported_program\.json$")
_SAMPLES: Final = re.compile(r"(^|/)data/sample_inputs/[^/]*$")


def unknown_classes(path: Path) -> tuple[set[str], set[str]]:
    """Return the classes that this process does not know, of a file's arguments and of its results.

    Nothing is imported. What is not an archive of torch has none.
    """
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
    """Yield the names of classes in the text of a tree that are not registered here."""
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
        """Return the names of the children, else their positions.

        A `ModelOutput` and a cache have a list of them, a dataclass has that and a list of those that
        are None.
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
            _unflatten(kind),
            serialized_type_name=name,
            to_dumpable_context=json.dumps,
            from_dumpable_context=json.loads,
            flatten_with_keys_fn=_with_keys,
        )


def _unflatten(kind: type[_StandIn]) -> Callable[[Any, Any], _StandIn]:
    return lambda children, context: kind(list(children), context)


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
