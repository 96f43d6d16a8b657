"""Write the files of this folder: modules of one function, by the release of JAX that runs this.

    pip install jax==0.4.31 jaxlib==0.4.31 absl-py flatbuffers && python write_modules.py

NAME.mlir is the text of the release; NAME.jax is the file of its `jax.export`, or NAME.mlirbc the
portable artifact if the release has no such file; NAME.npy has the results for `arguments()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FOLDER = Path(__file__).parent


def network(x: Any, kernel: Any, table: Any) -> dict[str, Any]:
    """Return a convolution, pooling, a product, a position, a loop, a gather, a sort and a branch."""
    layouts = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layouts)
    window = (1, 2, 2, 1)
    y = jax.lax.reduce_window(jax.nn.relu(y), -jnp.inf, jax.lax.max, window, window, "VALID")
    rows = jax.nn.softmax(jnp.einsum("nhwc,ck->nk", y, table))
    total = jax.lax.fori_loop(0, 3, lambda i, value: value * 2 + i, rows.sum())
    return {
        "rows": jnp.take(table.T, jnp.argmax(rows, axis=1), axis=0),
        "sorted": jnp.sort(rows, axis=1),
        "total": jax.lax.cond(total > 5, jnp.sin, jnp.tanh, total),
    }


def arguments() -> list[Any]:
    """Draw the arguments."""
    random = np.random.default_rng(0)
    shapes = ((2, 4, 4, 3), (3, 3, 3, 4), (4, 5))
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def main() -> None:
    """Write the files of the release that is installed."""
    arrays = arguments()
    kinds = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    jitted, name = jax.jit(network), FOLDER / f"jax-{jax.__version__}"
    name.with_name(f"{name.name}.mlir").write_text(jitted.lower(*kinds).as_text())
    results = [np.asarray(value).ravel() for value in jitted(*arrays).values()]
    np.save(name.with_name(f"{name.name}.npy"), np.concatenate(results))
    try:
        from jax import export
    except ImportError:
        from jax.experimental.export import export as older

        artifact = older.export(jitted)(*kinds).mlir_module_serialized
        name.with_name(f"{name.name}.mlirbc").write_bytes(artifact)
    else:
        name.with_name(f"{name.name}.jax").write_bytes(export.export(jitted)(*kinds).serialize())


if __name__ == "__main__":
    main()
