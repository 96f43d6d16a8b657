"""Building programs in Python: an operator is a function, and TOSA's rules are applied at each call."""

from tosa_convert.builder.builder import Builder
from tosa_convert.builder.values import Value, Variable

__all__ = ["Builder", "Value", "Variable"]
