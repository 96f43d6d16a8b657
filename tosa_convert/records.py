"""Names of `dataclasses` and `typing`, for modules that have not been edited since."""

from dataclasses import MISSING, dataclass, field, fields, replace
from typing import NamedTuple

__all__ = ["MISSING", "NamedTuple", "dataclass", "field", "fields", "replace"]
