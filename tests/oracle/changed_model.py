"""The reference model with changed results as a system under test of the official runner.

    tosa_verif_run_tests --sut-module oracle.changed_model --sut-module-args oracle.changed_model:CONV2D

The runner loads the class by its name. See `reference_backend.perturb`.
"""

from __future__ import annotations

import importlib
from typing import Any

from oracle.reference_backend import perturb

_official: Any = importlib.import_module("runner.tosa_refmodel_sut_run")


class TosaSUTRunner(_official.TosaSUTRunner):  # type: ignore[misc]
    """Runs a case, and then changes an element of its results."""

    def runTestGraph(self) -> Any:
        """Return the runner's own method."""
        answer = super().runTestGraph()
        files = [self.testDirPath / name for name in self.testDesc["ofm_file"]]
        operator = "".join(self.runnerArgs)
        model = self.testDirPath / self.testDesc["tosa_file"]
        perturb(model, [file for file in files if file.exists()], operator)
        return answer
