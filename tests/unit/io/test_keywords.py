"""A misspelt keyword of a public function is an error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import pytest

import tosa_convert as tc

FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    *(tc.load, tc.save, tc.dumps, tc.from_module, tc.to_module),
    *(tc.export_tosa_func_to_flatbuffer, tc.import_tosa_func_from_flatbuffer),
)


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
