"""The keywords of the public functions are the fields of the options that they become."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import pytest

import tosa_convert as tc
from tosa_convert.io.keywords import BuildKeywords, ReadKeywords, WriteKeywords
from tosa_convert.io.options import ReadOptions, WriteOptions

FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    *(tc.load, tc.save, tc.dumps, tc.from_module, tc.to_module),
    *(tc.export_tosa_func_to_flatbuffer, tc.import_tosa_func_from_flatbuffer),
)


def names_of(options: type) -> set[str]:
    return {row.name for row in fields(options)}


def test_load_takes_each_option_of_reading() -> None:
    of_models = {"exact"}  # the functions of `frontends` take it
    assert names_of(ReadOptions) - of_models == set(ReadKeywords.__annotations__)


def test_files_and_modules_together_take_each_option_of_writing() -> None:
    files, modules = WriteKeywords, BuildKeywords
    assert names_of(WriteOptions) == {*files.__annotations__, *modules.__annotations__}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: str(function.__name__))
def test_a_signature_lists_each_keyword_with_its_default(function: Callable[..., Any]) -> None:
    rows = inspect.signature(function).parameters
    assert not any(row.kind is row.VAR_KEYWORD for row in rows.values())
    for options in (ReadOptions, WriteOptions):
        for row in fields(options):
            if row.name in rows and isinstance(row.default, (bool, int, str, tuple)):
                assert rows[row.name].default == row.default


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: str(function.__name__))
def test_a_misspelt_keyword_is_a_type_error_that_names_the_near_one(
    function: Callable[..., Any],
) -> None:
    positional = [
        None for row in inspect.signature(function).parameters.values() if row.default is row.empty
    ]
    keyword = "valdiate" if "validate" in inspect.signature(function).parameters else "fucn"
    near = "validate" if keyword == "valdiate" else "func"
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got .* did you mean '{near}'"):
        function(*positional, **{keyword: True})
