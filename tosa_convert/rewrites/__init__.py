"""Graph -> Graph rewrites: repairs of programs that TOSA forbids, and clean-up."""

from tosa_convert.rewrites.operator_pass import Change, Report
from tosa_convert.rewrites.public import Rewritten, apply, names_of
from tosa_convert.rewrites.table import CLEAN_UP, REPAIR, REWRITES, Rewrite

__all__ = [
    "CLEAN_UP",
    "REPAIR",
    "REWRITES",
    "Change",
    "Report",
    "Rewrite",
    "Rewritten",
    "apply",
    "names_of",
]
