"""Names of `dataclasses` and `typing`, from where modules import them that have not been edited since."""

from dataclasses import MISSING, dataclass, field, fields, replace
from typing import NamedTuple

__all__ = ["MISSING", "NamedTuple", "dataclass", "field", "fields", "replace"]
