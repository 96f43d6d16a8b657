"""From a framework's model to a TOSA program: TFLite, Keras, TensorFlow, torch, ONNX and JAX.

A converter runs in a process of its own, in this Python or in another one, because the packages of the
frameworks pin one another's dependencies, and because some of them crash. What comes back is MLIR
bytecode and a small JSON; `finish` makes a Graph of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tosa_convert.frontends.public import (
        describe,
        from_file,
        from_jax,
        from_keras,
        from_onnx,
        from_tflite,
        from_torch,
    )

__all__ = [
    "describe",
    "from_file",
    "from_jax",
    "from_keras",
    "from_onnx",
    "from_tflite",
    "from_torch",
]


def __getattr__(name: str) -> Any:
    """Import a public function when it is first used: the child lacks what these import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tosa_convert.frontends import public

    return getattr(public, name)
