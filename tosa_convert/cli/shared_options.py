"""Options that several verbs have."""

from __future__ import annotations

from typing import Final

import click

from tosa_convert.file_consumers import READERS
from tosa_convert.options import LIMIT_NAMES

#: For verbs that read modules.
func_option: Final = click.option(
    "--func", metavar="NAME", help="The function of an MLIR module, if it has several."
)

#: For verbs that write programs.
no_validate_option: Final = click.option(
    "--no-validate",
    is_flag=True,
    help="Also write a program that TOSA forbids. By default .tosa and MLIR are only written if "
    "`tosa-flatbuffer validate` has no finding.",
)

#: For verbs that write files for another program.
consumer_option: Final = click.option(
    "--for",
    "consumer",
    metavar="READER[==RELEASE]",
    help="The program that will open the output, such as vela or iree==3.2: "
    + ", ".join(READERS)
    + ". The output gets a form that it opens. With a release, what it does not read is refused.",
)

#: For verbs that take several files.
jobs_option: Final = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of processes that work on several files side by side; by default one for each core if "
    "there are many small files, else one.",
)

#: For verbs that read files that may be damaged.
limit_option: Final = click.option(
    "--limit",
    "limits",
    metavar="NAME=N",
    multiple=True,
    help="Set a resource limit: " + ", ".join(LIMIT_NAMES) + ". May be repeated.",
)
