"""Which of our rules answer the conditions that the official negative tests are named after.

A pattern matches rules, such as `*-rank`; `code:` stands before a code of `errors.CODES`, where a
program is refused as unsound before its operators are judged.
"""

from __future__ import annotations

from typing import Final

#: Conditions that the generator names, and makes no test of.
NEVER_MADE: Final = {"WrongScaledBlockShapeDimension"}

#: Condition -> the patterns of the rules that may answer it.
RULES: Final[dict[str, str]] = {}
