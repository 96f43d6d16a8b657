"""The JAX converter: a function that a Python file makes, in the child process, or a function here."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tosa_convert import rewrites
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends import unlowered as leftovers
from tosa_convert.frontends.jax.lowering import (
    Arguments,
    Lowered,
    example_arrays,
    lower_function,
    use_cpu,
)
from tosa_convert.frontends.lower_model import write_examples, write_program
from tosa_convert.frontends.process.python_file import call_factory, failure, tuple_of_arguments
from tosa_convert.frontends.process.request import Interface, NotLowered, Request, say_stage
from tosa_convert.frontends.read_result import refuse_forbidden
from tosa_convert.graph.model import Graph
from tosa_convert.rewrites.table import EXACT

#: The places of a primitive that a message lists.
_MOST_PLACES: Final = 4
#: What the text of an exception has, and what would help.
_HINTS: Final = (
    ("UnboundModule", "give module.bind(variables), or lambda x: module.apply(variables, x)"),
    (
        "TraceContextError",
        "give the module of nnx as the function: what a call of it changes becomes variables",
    ),
    (
        "Tracer|NonConcrete|Concretization|Non-hashable static",
        "bind what is fixed: functools.partial(function, train=True); jax.lax.cond and jnp.where "
        "choose by data",
    ),
)
log: Final = logging.getLogger(__name__)


def lower(request: Request, folder: Path) -> Interface:
    """Lower the function that a factory in a Python file returns, with its example arguments."""
    path = Path(request.source)
    function, arguments = made_function(path, request)
    say_stage(folder, "lowering the model")
    with failures_of(path):
        found = lower_function(
            function, arguments, shapes=request.input_shapes, has_full_paths=True
        )
    if found.graph is not None:
        write_program(found.graph, folder)
        if not request.input_shapes:  # Else the examples do not have the shapes of the program.
            write_examples(request, folder, example_arrays(arguments))
    return Interface(
        inputs=found.inputs,
        outputs=found.outputs,
        not_lowered=rows_of(found.problems),
        remarks=found.remarks() if found.graph is not None else [],
    )


def made_function(path: Path, request: Request) -> tuple[Callable[..., Any], Arguments]:
    """Return what a factory in a Python file returns: a function, and its example arguments."""
    use_cpu()
    member = request.member
    made = call_factory(path, member, request.users_folder)
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not callable(made[0]):
        kind = type(made).__name__
        if isinstance(made, tuple) and made and not callable(made[0]):
            kind = f"a {type(made[0]).__name__} in place of the function"
        message = f"{member}() returns {kind}"
        hint = "return (function, args) or (function, args, kwargs)"
        raise fail("frontend-failed", str(path), message, hint)
    arguments = tuple_of_arguments(made[1], str(path))
    return made[0], Arguments(arguments, made[2] if len(made) == 3 else {})


@contextlib.contextmanager
def failures_of(path: Path) -> Iterator[None]:
    """Raise errors of a Python file's code as TosaConvertError("frontend-failed") with its line."""
    try:
        yield
    except TosaConvertError:
        raise
    except Exception as error:
        hints = (
            hint for words, hint in _HINTS if re.search(words, f"{type(error).__name__} {error}")
        )
        raise failure(error, path, next(hints, "")) from None


def graph_of(
    function: Callable[..., Any],
    arguments: Arguments,
    names: Sequence[str] | None,
    has_full_paths: bool,
    exact: bool,
) -> Graph:
    """Return the program of a function of this process; see `tosa_convert.frontends.from_jax`."""
    found: Lowered = lower_function(function, arguments, names, has_full_paths=has_full_paths)
    name = getattr(function, "__name__", type(function).__name__)
    if found.graph is None:
        raise TosaConvertError(list(leftovers.findings(rows_of(found.problems), name)))
    for remark in found.remarks():
        log.warning("%s", remark)
    graph = rewrites.apply(found.graph, *(EXACT if exact else ())).graph
    refuse_forbidden(graph, name)
    return graph


def arguments_of(
    args: Sequence[Any], kwargs: Mapping[str, Any] | None, names: Sequence[str] | None
) -> Arguments:
    args = tuple_of_arguments(args, "args")
    if names is not None and len(names) != len(args):
        message = f"found {len(names)} names for {len(args)} arguments"
        raise fail("option-conflict", "names", message, "give a name for each argument")
    return Arguments(args, kwargs or {})


def rows_of(problems: Sequence[NotLowered]) -> list[NotLowered]:
    """Return a row for each primitive and reason, with the first places."""
    found: dict[tuple[str, str], list[NotLowered]] = {}
    for row in problems:
        found.setdefault((row.operator, row.reason), []).append(row)
    rows = []
    for group in found.values():
        places = list(dict.fromkeys(row.where for row in group if row.where))
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        where = ", ".join(places[:_MOST_PLACES]) + more
        rows.append(replace(group[0], where=where, count=len(group)))
    return rows
