"""Operators that convert elements from one type to another."""

from __future__ import annotations

from typing import Final

from tosa_convert.spec.rules.core import Rules

RULES: Final[Rules] = {}
