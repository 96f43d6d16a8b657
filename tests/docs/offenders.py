"""Code that broke a rule of the house when the rule was made. These lists only get shorter.

`test_house.py` lets these pass. `test_offenders.py` fails when one of them offends no more: then it is
taken off its list.
"""

from __future__ import annotations

#: Import cycles.
CIRCLES: list[list[str]] = []

#: Files that reach a module of ours by a string, by setattr or by assignment.
MODULES_BY_STRING: list[str] = []

#: Functions that are too long.
LONG_FUNCTIONS: list[str] = []

#: Files that are too long.
LONG_FILES: list[str] = []
