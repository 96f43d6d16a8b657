"""Name the exit codes of the command-line tool.

0 is success. Those of expected failures are the categories of `errors`.
"""

from __future__ import annotations

from typing import Final

#: A check found something, or a difference.
EXIT_FINDINGS: Final = 1
EXIT_USAGE: Final = 2
EXIT_BAD_INPUT: Final = 3
EXIT_UNSUPPORTED: Final = 4
#: A check cannot tell: it allows an error of more than a tenth of the values.
EXIT_WEAK: Final = 5
#: An exception that is not an expected failure.
EXIT_BUG: Final = 70
#: A shell reports a process that a signal ended as this number plus the signal's.
EXIT_SIGNAL: Final = 128
#: Of SIGINT.
EXIT_INTERRUPTED: Final = EXIT_SIGNAL + 2
#: Of SIGPIPE, which Windows does not have: 1 would say that a check found something.
EXIT_CLOSED_PIPE: Final = EXIT_SIGNAL + 13
