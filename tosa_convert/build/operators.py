"""Each operator as a function of a builder; `operators.pyi` has their signatures."""

from tosa_convert.build.block_builder import BlockBuilder
from tosa_convert.build.calls import FUNCTIONS

Operators = type("Operators", (BlockBuilder,), dict(FUNCTIONS))
