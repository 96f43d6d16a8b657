"""The suites of programs: files that are converted, and cases that a backend runs."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Final

from tosa_convert.golden.backends.process import of_backend, of_environment, of_software
from tosa_convert.golden.running.run_options import Engine, chosen_engine
from tosa_convert.qualify.suite.engine import Plan
from tosa_convert.qualify.suite.html_table import backend_page
from tosa_convert.qualify.suite.qualification import qualify_case
from tosa_convert.qualify.suite.run_cases import Via, files_of_case, find_cases, run_case
from tosa_convert.qualify.suite.settings import Qualification, files_qualified, may_run
from tosa_convert.records import replace

_CONVERTED: Final = "{passed} of {cases} cases pass ({failed} fail, {errors} errors)"
_COMPUTED: Final = (
    "{passed} of {cases} cases pass ({wrong} wrong, {refused} refused, {crashed} crashed, "
    "{not_run} not run, {errors} errors)"
)


def conversion_plan(
    folder: Path, via: Via = "tosa", timeout: float = 60.0, engine: Engine = "auto"
) -> Plan:
    """Return the plan that converts each file below a folder into a format and back."""
    root, names = _cases(folder)
    return Plan(
        names=names,
        header={"folder": str(root), "via": via},
        decides={
            "timeout": timeout,
            "engine": chosen_engine(engine),
            "software": of_software(),
        },
        files=functools.partial(files_of_case, str(root)),
        run_case=functools.partial(run_case, str(root), via=via, timeout=timeout, engine=engine),
        counts=_CONVERTED,
    )


def backend_plan(folder: Path, settings: Qualification) -> Plan:
    """Return the plan that runs each case below a folder on a backend.

    Raises TosaConvertError if no case can run on it.
    """
    root, names = _cases(folder)
    if root != folder and os.path.basename(settings.against) == names[0]:
        # The results of the only case.
        settings = replace(settings, against=os.path.dirname(settings.against))
    settings.require_backend()
    page = backend_page(root, settings)
    return Plan(
        names=names,
        header={
            "folder": str(root),
            "against": settings.against,
            "claims": None if settings.claims is None else sorted(settings.claims),
            "level": settings.level,
        },
        decides={
            "options": [
                settings.timeout,
                chosen_engine(settings.engine),
                settings.keep is not None,
                settings.reduce,
                [settings.seeds, settings.kinds],
                settings.python,
                settings.strict,
            ],
            "backend": of_backend(settings.against),
            "environment": of_environment(settings.against),
            "software": of_software(settings.python),
        },
        files=functools.partial(files_qualified, str(root), settings=settings),
        run_case=functools.partial(qualify_case, str(root), settings=settings),
        counts=_COMPUTED,
        page=lambda run: page,
        may_run=functools.partial(may_run, str(root), settings=settings),
    )


def _cases(folder: Path) -> tuple[Path, list[str]]:
    """Return the folder of the cases, and their names in it; the folder itself may be one."""
    names = find_cases(folder)
    return (folder.parent, [folder.name]) if names == ["."] else (folder, names)
