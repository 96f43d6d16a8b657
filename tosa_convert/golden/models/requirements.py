"""What `--check` of a model needs besides what converts it."""

from __future__ import annotations

import sys
from typing import Final

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.frontends.process.run import packages_of
from tosa_convert.frontends.table import FRONTENDS, RUNTIMES, Installed, missing
from tosa_convert.golden.running.reference_model_process import is_installed
from tosa_convert.installation import install_command
from tosa_convert.records import replace

#: The extra of what converts TFLite models, and the one that also runs them and their programs.
_TFLITE: Final = "tflite"
_CHECK: Final = "check"


def require_for_check(name: str, python: str = "") -> None:
    """Raise TosaConvertError with all that converting and comparing a model needs and that is missing."""
    (found,) = (row for row in packages_of(python) if row.frontend == name)
    findings = [*missing(FRONTENDS[name], found.missing, python), *missing_for_check(found, python)]
    if FRONTENDS[name].extra == _TFLITE:  # One extra installs all of it.
        command = install_command(_CHECK, python)
        hint = f"{command}, or --python PROGRAM for a Python that has it"
        findings = [
            replace(row, hint=hint) if row.code in ("frontend-missing", "missing-backend") else row
            for row in findings
        ]
    if findings:
        raise TosaConvertError(findings)


def missing_for_check(found: Installed, python: str = "") -> list[Finding]:
    """Return findings for a runtime that is missing, and for a reference model that is misnamed."""
    findings = []
    row, runtime = FRONTENDS[found.frontend], found.missing_runtime
    # What converts models may run them as well.
    if runtime and not {*RUNTIMES[row.runtime].values()} & {*found.missing}:
        where = python or sys.executable
        message = f"{runtime} is not installed in {where}, and --check runs models with it"
        hint = f"pip install {runtime}, or --python PROGRAM for a Python that has it"
        findings.append(Finding("missing-backend", row.runtime, message, hint))
    try:
        is_installed()
    except TosaConvertError as error:
        findings += error.findings
    return findings
