"""What the user is told of operators that do not lower: grouped, with the first place and advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tosa_convert.frontends.process.request import NotLowered
from tosa_convert.frontends.unlowered import advice


@dataclass(frozen=True)
class Unlowered:
    """An operator that does not lower.

    operator: its name, as the framework has it where that is known.
    location: MLIR's text of where it is.
    reason: why it does not lower. advice: what to do; "" for the advice of its operator.
    """

    operator: str
    location: str
    reason: str
    advice: str = ""


class NotLoweredError(Exception):
    """Operators do not lower: `found` has each with the number of its uses at one location."""

    def __init__(self, found: dict[Unlowered, int]) -> None:
        super().__init__("; ".join(f"{row.operator}: {row.reason}" for row in found))
        self.found = found


#: In place of an operator's name, if none is to blame.
THE_MODEL: Final = "the model"
_FRAME: Final = re.compile(r'"([^"]*)":(\d+)')
_NAMED: Final = re.compile(r'loc\("([^"]*)"')
#: Folders of torch, and of all that is installed.
_OF_TORCH: Final = re.compile(r"[/\\](?:torch|executorch)[/\\]")
_INSTALLED: Final = re.compile(r"[/\\](?:(?:site|dist)-packages|lib[/\\]python3\.\d+)[/\\]")


def report(found: Mapping[Unlowered, int]) -> list[NotLowered]:
    """Return one entry for each operator and reason, in the order of the program."""
    rows: dict[tuple[str, str], NotLowered] = {}
    for unlowered, count in found.items():
        key = unlowered.operator, unlowered.reason
        if key in rows:
            rows[key].count += count
            continue
        rows[key] = NotLowered(
            operator=unlowered.operator,
            where=place(unlowered.location),
            count=count,
            reason=unlowered.reason,
            hint=unlowered.advice or advice("torch", unlowered.operator),
        )
    return list(rows.values())


def arguments_of(node: Any) -> dict[str, Any]:
    """Return the arguments of an operator by name, in the order of its schema, with defaults."""
    rows = node.target._schema.arguments
    given = dict(zip((row.name for row in rows), node.args, strict=False)) | dict(node.kwargs)
    return {row.name: given.get(row.name, row.default_value) for row in rows}


def locate(node: Any) -> str:
    """Return where a node of a torch program was written, in MLIR's form, innermost first."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [line.split('"') for line in lines if line.startswith('File "')]
    return " ".join(
        f'"{path}":{rest.removeprefix(", line ").split(",")[0]}:0'
        for _, path, rest in reversed(frames)
    )


def place(location: str) -> str:
    """Return where an operator is: the innermost line of the user's code, or the name of the node.

    Without lines of the user's code it is the innermost one of a library, of torch only at last.

    Example:
        >>> place('loc(callsite("/lib/torch/nn/modules/linear.py":134:0 at "model.py":25:0))')
        'model.py:25'
        >>> place('loc(callsite("/lib/site-packages/timm/layers/drop.py":9:0 at "model.py":25:0))')
        'model.py:25'
        >>> place('loc("conv_1")')
        'conv_1'
    """
    # Code that torch.fx wrote is in no file.
    frames = [(path, line) for path, line in _FRAME.findall(location) if path[:1] != "<"]
    above = [frame for frame in frames if not _OF_TORCH.search(frame[0])]
    own = [frame for frame in above if not _INSTALLED.search(frame[0])]
    if frames:
        path, line = (own or above or frames)[0]
        return f"{path}:{line}"
    named = _NAMED.search(location)
    return named[1] if named else ""
