"""What `show` found of a file; show_text.py and show_json.py print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tosa_convert.formats.read import Storage
from tosa_convert.io.formats import Format
from tosa_convert.records import dataclass
from tosa_convert.views.inspection.summary import Summary

if TYPE_CHECKING:
    from tosa_convert.frontends.model_summary import ModelSummary


@dataclass(frozen=True, slots=True)
class Shown:
    """A program and what is in it.

    size: the bytes of its file, without weights that are beside it.
    function: its name, in a file that has several programs.
    """

    name: str
    format: Format
    size: int
    storage: tuple[Storage, ...]
    summary: Summary
    function: str = ""


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A model of a framework and what its file says."""

    name: str
    summary: ModelSummary
