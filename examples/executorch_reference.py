# SPDX-License-Identifier: Apache-2.0
r"""A plug-in of pytest by which ExecuTorch's tests run TOSA in numpy, without the reference model.

    PYTHONPATH=examples python -m pytest -p executorch_reference -k tosa \
        --pyargs executorch.backends.arm.test.ops.test_abs

ExecuTorch's Arm backend imports `tosa_reference_model` when it runs a program; this is it, on every
platform that has numpy. The programs are still written by `tosa_serializer`.
"""

from __future__ import annotations

import sys

from tosa_convert import reference

sys.modules["tosa_reference_model"] = reference
