"""Each operator as a function of a builder; `operators.pyi` has their signatures."""

from tosa_convert.builder.block_builder import BlockBuilder
from tosa_convert.builder.calls import FUNCTIONS

Operators = type("Operators", (BlockBuilder,), dict(FUNCTIONS))
