"""The shapes that a user gives for the arguments of a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tosa_convert.errors import Finding, TosaConvertError, suggest
from tosa_convert.graph.model import DYNAMIC, INT32_MAX, Block, Graph, Tensor, block_path
from tosa_convert.rules.values import shape_text

#: The size of a dimension: a number, or a symbol such as "B"; "?" leaves the dimension open.
GivenSize = int | str
OPEN: Final = "?"


def resolved(
    graph: Graph,
    shapes: Mapping[str, tuple[GivenSize, ...]],
    aliases: Mapping[str, int] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each argument that is given one, by the argument's name.

    A symbol stands for one size wherever it occurs. It gets its value from a declared size in its
    position, or from an entry of its own: `{"x": ("B", 3), "y": ("B", 4), "B": (8,)}`. A symbol without
    a value leaves its dimensions open.
    """
    return _Arguments(graph, aliases or {}).resolved(shapes)


def open_symbols(
    graph: Graph,
    shapes: Mapping[str, tuple[GivenSize, ...]],
    aliases: Mapping[str, int] | None = None,
) -> list[str]:
    """Return the symbols to which `resolved` gives no value, in their order."""
    arguments = _Arguments(graph, aliases or {})
    arguments.resolved(shapes)
    names = [size for sizes in shapes.values() for size in sizes if isinstance(size, str)]
    return [name for name in dict.fromkeys(names) if name != OPEN and name not in arguments.values]


class _Arguments:
    """The arguments of one program."""

    def __init__(self, graph: Graph, aliases: Mapping[str, int]) -> None:
        self.block: Block = graph.main
        self.where = block_path(graph.regions[0].name, self.block.name)
        names = self.block.inputs
        self.positions = {f"arg{index}": index for index in range(len(names))}
        self.positions |= {name: index for name, index in aliases.items() if index < len(names)}
        self.positions |= {name: index for index, name in enumerate(names)}
        self.findings: list[Finding] = []
        #: The values of symbols, and what gave them.
        self.values: dict[str, tuple[int, str]] = {}

    def resolved(self, shapes: Mapping[str, tuple[GivenSize, ...]]) -> dict[str, tuple[int, ...]]:
        """See `resolved`."""
        symbols = {
            size
            for key, sizes in shapes.items()
            if key in self.positions
            for size in sizes
            if isinstance(size, str) and size != OPEN
        }
        chosen: dict[str, tuple[GivenSize, ...]] = {}
        for key, sizes in shapes.items():
            if key in self.positions:
                name = self.block.inputs[self.positions[key]]
                if name in chosen:
                    self.refuse("unsupported-shape", f'argument "{key}": it has a shape already')
                elif self.fits(key, name, sizes):
                    chosen[name] = sizes
            elif key in symbols:
                self.bind_alone(key, sizes)
            else:
                names = [f'"{name}"' for name in self.block.inputs]
                hint = suggest(f'"{key}"', names, "arguments: " + ", ".join(names))
                self.refuse("unknown-argument", f'no argument is called "{key}"', hint)
        for name, sizes in chosen.items():
            self.bind_declared(name, sizes)
        if self.findings:
            raise TosaConvertError(self.findings)
        return {name: tuple(self.size(size) for size in sizes) for name, sizes in chosen.items()}

    def size(self, size: GivenSize) -> int:
        """Return a size as an integer: DYNAMIC for one that stays open."""
        if isinstance(size, int):
            return size
        return self.values[size][0] if size in self.values else DYNAMIC

    def refuse(self, code: str, message: str, hint: str = "") -> None:
        """Note a finding."""
        self.findings.append(Finding(code, self.where, message, hint))

    def bind(self, symbol: str, value: int, source: str) -> None:
        """Give a symbol its value."""
        known, known_source = self.values.setdefault(symbol, (value, source))
        if known != value:
            self.refuse(
                "unsupported-shape",
                f'the size "{symbol}" is {known} by {known_source} and {value} by {source}',
            )

    def bind_alone(self, symbol: str, sizes: tuple[GivenSize, ...]) -> None:
        """Bind a symbol to the value of its own entry."""
        if len(sizes) == 1 and isinstance(sizes[0], int) and 0 <= sizes[0] <= INT32_MAX:
            self.bind(symbol, sizes[0], "the value given")
        else:
            found = _text(sizes)
            self.refuse(
                "unsupported-shape", f'the size "{symbol}" is given as {found}, expected one number'
            )

    def bind_declared(self, name: str, sizes: tuple[GivenSize, ...]) -> None:
        """Bind symbols to values from the sizes that an argument declares."""
        declared = self.block.tensors[name].shape
        for size, own in zip(sizes, declared or (), strict=False):
            if isinstance(size, str) and size != OPEN and own != DYNAMIC:
                self.bind(size, own, f'argument "{name}"')

    def fits(self, key: str, name: str, sizes: tuple[GivenSize, ...]) -> bool:
        """Return whether an argument can have these sizes; if not, note the reason."""
        problem = _mismatch(self.block.tensors.get(name), sizes)
        if problem:
            self.refuse("unsupported-shape", f'argument "{key}": {problem}')
        return not problem


def _mismatch(tensor: Tensor | None, sizes: tuple[GivenSize, ...]) -> str:
    """Return why an argument cannot have these sizes, or ""."""
    if tensor is None:
        return "it is a shape, not a tensor"
    shape = _text(sizes)
    numbers = [size for size in sizes if isinstance(size, int)]
    wrong = [size for size in sizes if isinstance(size, str) and not _is_symbol(size)]
    if wrong:
        return f'the shape {shape} has the size {wrong[0]!r}, expected a number, a symbol or "?"'
    if any(size < 0 for size in numbers):
        return f"the shape {shape} has a negative size"
    if any(size > INT32_MAX for size in numbers):
        return f"the shape {shape} has a dimension over {INT32_MAX}"
    if tensor.shape is None:
        return ""
    if len(tensor.shape) != len(sizes) or any(
        isinstance(given, int) and declared not in (DYNAMIC, given)
        for declared, given in zip(tensor.shape, sizes, strict=True)
    ):
        return f"the shape {shape} does not fit its shape {shape_text(tensor.shape)}"
    return ""


def _is_symbol(size: str) -> bool:
    return size == OPEN or size.isidentifier()


def _text(sizes: tuple[GivenSize, ...]) -> str:
    return f"[{', '.join(map(str, sizes))}]"
