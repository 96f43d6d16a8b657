"""Public functions name an argument of a wrong Python type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import tosa_convert as tc
from tosa_convert import frontends, golden, rewrites


class Wrong:
    """What no function takes."""


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    f"{module.__name__}.{name}": found
    for module in (tc, golden, rewrites, frontends)
    for name in module.__all__
    if inspect.isfunction(found := getattr(module, name))
}


def required(function: Callable[..., Any]) -> list[inspect.Parameter]:
    rows = inspect.signature(function).parameters.values()
    return [row for row in rows if row.default is row.empty and row.kind < row.VAR_KEYWORD]


#: Arguments that some values of the others leave unused.
UNUSED: Final = (
    "open_backend-graph",
    "open_backend-inputs",
    "save_case-folder",
    "save_case-backend",
)
CALLS: Final = [
    (name, row.name)
    for name, function in FUNCTIONS.items()
    for row in required(function)
    if f"{name}-{row.name}".rpartition(".")[2] not in UNUSED
]


def right(name: str, folder: Path, graph: tc.Graph) -> Any:
    """Return a value that fits a parameter of this name."""
    arrays = golden.input_arrays(graph, None, random=1)
    return {
        **dict.fromkeys(("graph", "left", "right", "program", "model"), graph),
        **dict.fromkeys(("inputs", "expected", "actual", "against"), arrays),
        **dict.fromkeys(("folder", "work"), folder / "new"),
        "outputs": graph.main.outputs,
        "args": (),
        "text": "iree",
        "command": "true",
        "function": abs,
        "seed": 1,
        "operators": 3,
        "path": folder / "m.tosa",
    }.get(name)


@pytest.mark.parametrize(("function", "wrong"), CALLS)
def test_an_argument_of_a_wrong_type_is_named(function: str, wrong: str, tmp_path: Path) -> None:
    graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
    tc.export_weights(graph, tmp_path / "new")
    given: list[Any] = []
    named: dict[str, Any] = {}
    for row in required(FUNCTIONS[function]):
        value = Wrong() if row.name == wrong else right(row.name, tmp_path, graph)
        if row.name == "against" and wrong == "against":
            named["inputs"] = right("inputs", tmp_path, graph)
        if row.kind == row.KEYWORD_ONLY:
            named[row.name] = value
        elif row.kind == row.VAR_POSITIONAL:
            given += [value]
        else:
            given.append(value)

    def call() -> None:
        # A generator begins with its first element.
        next(iter(FUNCTIONS[function](*given, **named)))

    with pytest.raises((TypeError, tc.TosaConvertError)) as caught:
        call()
    text = str(caught.value)
    assert "Wrong" in text or "frontend-missing" in text, text
