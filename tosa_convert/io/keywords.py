"""The keywords of the public functions, for type checkers, `help` and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Literal, TypedDict, TypeVar

from tosa_convert.errors import near_match
from tosa_convert.io.options import (
    Constants,
    CustomLike,
    FunctionOperation,
    LimitsLike,
    Names,
    ReadOptions,
    Shapes,
    TosaVersion,
    Weights,
    WriteOptions,
)


class ModuleKeywords(TypedDict, total=False):
    """Keywords of the functions that read MLIR modules; `tosa_convert.load` documents each of them."""

    func: str | None
    names: Names
    full_paths: bool
    narrow: str | Iterable[str]
    pass_captured: bool
    input_shapes: Shapes | None


class ReadKeywords(ModuleKeywords, total=False):
    """Keywords of `tosa_convert.load`."""

    dialect: str
    custom: CustomLike
    accept_changed_weights: bool
    copy: bool
    limits: LimitsLike


class WriteKeywords(TypedDict, total=False):
    """Keywords of the functions that write files; `tosa_convert.save` documents each of them."""

    weights: Weights
    names: Names
    bytecode_version: int
    dialect: str
    function_op: FunctionOperation
    generic: bool
    locations: bool
    elide: int | None
    verify: bool
    validate: bool
    limits: LimitsLike


class BuildKeywords(TypedDict, total=False):
    """Keywords of the functions that build modules; `tosa_convert.to_module` documents each of them."""

    names: Names
    constants: Constants
    validate: bool
    limits: LimitsLike


class ImportKeywords(BuildKeywords, total=False):
    """Keywords of `tosa_convert.import_tosa_func_from_flatbuffer`, which documents each of them."""

    accept_changed_weights: bool
    copy: bool


class PassKeywords(ModuleKeywords, total=False):
    """Keywords of the passes that write; `export_tosa_func_to_flatbuffer` documents each of them."""

    tosa_version: TosaVersion
    weights: Weights
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    verify: bool
    validate: bool


class ExportKeywords(PassKeywords, total=False):
    """Keywords of `tosa_convert.export_tosa_func_to_flatbuffer`, which documents each of them."""

    to: Literal["tosa", "json"] | None


_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_keywords(keywords: Any, **defaults: Any) -> Callable[[_Function], _Function]:
    """Give a function of `**options: Unpack[keywords]` the signature that lists the keywords."""
    import inspect

    for row in (*fields(WriteOptions), *fields(ReadOptions)):
        value = None if row.default is MISSING or row.name == "limits" else row.default
        defaults.setdefault(row.name, value)

    def with_signature(function: _Function) -> _Function:
        own = inspect.signature(function)
        listed = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name],
                annotation=getattr(annotation, "__forward_arg__", annotation),
            )
            for name, annotation in keywords.__annotations__.items()
        ]
        kept = [row for row in own.parameters.values() if row.kind is not row.VAR_KEYWORD]
        signature = own.replace(parameters=[*kept, *listed])
        setattr(function, "__signature__", signature)  # noqa: B010
        return function

    return with_signature


def refuse_unexpected(function: Callable[..., Any], keywords: Mapping[str, object]) -> None:
    """Raise TypeError for keywords that the signature of a function does not have, as a call does.

    Example:
        >>> def f(*, names="retain"): ...
        >>> refuse_unexpected(f, {"name": "generate"})
        Traceback (most recent call last):
        TypeError: f() got an unexpected keyword argument 'name'; did you mean 'names'?
    """
    import inspect

    known = inspect.signature(function).parameters
    for name in keywords:
        if name not in known:
            hint = near_match(name, known)
            message = f"{function.__name__}() got an unexpected keyword argument {name!r}"
            raise TypeError(f"{message}; did you mean {hint!r}?" if hint else message)
