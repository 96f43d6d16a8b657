"""Write the files of this folder with TensorFlow: `pip install tensorflow && python write_graph.py`.

frozen.pb is a frozen GraphDef, and frozen.npy has the results of its function for `image()`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent


def image() -> Any:
    """Draw the argument."""
    return np.random.default_rng(1).standard_normal((1, 6, 6, 2)).astype(np.float32)


def main() -> None:
    """Write the files."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    kernel = tf.Variable(np.random.default_rng(0).standard_normal((3, 3, 2, 4)).astype("f4"))

    def network(image: Any) -> Any:
        y = tf.nn.relu(tf.nn.conv2d(image, kernel, 1, "SAME"))
        return tf.nn.softmax(tf.reduce_mean(y, [1, 2]))

    kind = tf.TensorSpec((1, 6, 6, 2), tf.float32, name="image")
    function = tf.function(network).get_concrete_function(kind)
    graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
    (FOLDER / "frozen.pb").write_bytes(graph.SerializeToString())
    np.save(FOLDER / "frozen.npy", network(tf.constant(image())).numpy())


if __name__ == "__main__":
    main()
