"""Check that a call is refused with the code and message that a test expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import tosa_convert as tc


@contextmanager
def refused(
    code: str, message: str = "", *, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[tc.TosaConvertError]]:
    """Expect an error of this code, whose text has the message, or matches the pattern."""
    with pytest.raises(tc.TosaConvertError, match=match) as caught:
        yield caught
    assert caught.value.code == code
    assert message in str(caught.value)


def error_of(
    call: Callable[..., object], *arguments: object, **options: object
) -> tc.TosaConvertError:
    """Return the error of a call."""
    with pytest.raises(tc.TosaConvertError) as caught:
        call(*arguments, **options)
    return caught.value
