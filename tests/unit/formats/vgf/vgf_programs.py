"""The programs of the VGF files of this folder, which Arm's model converter 0.11.0 wrote.

    PYTHONPATH=tests/unit/formats/vgf python -m vgf_programs

writes the files again; it needs `pip install ai-ml-sdk-model-converter ai-ml-sdk-vgf-library`,
whose `vgf_dump` writes the modules (.spv).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.graph import Graph

FOLDER: Final = Path(__file__).parent


def floating() -> Graph:
    """Return a convolution, a transform of two results, and operators with attributes of each kind."""
    random = np.random.default_rng(0)
    b = Builder("main")
    b.location = 'loc("net.py":3:7)'
    x = b.input("x", np.float32, (1, 4, 8, 2))
    weight = random.standard_normal((4, 3, 3, 2)).astype(np.float32)
    convolved = b.conv2d(
        x,
        weight,
        np.arange(4, dtype=np.float32),
        pad=[1, 1, 1, 1],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type="fp32",
    )
    bounded = b.clamp(convolved, min_val=-0.5, max_val=1.5)
    pooled = b.avg_pool2d(bounded, kernel=[2, 2], stride=[2, 2], pad=[0, 0, 0, 0], acc_type="fp32")
    turned = b.transpose(pooled, perms=[0, 3, 1, 2])
    rows = b.reshape(turned, (4, 2, 4))
    real, imaginary = b.rfft2d(rows)
    total = b.reduce_sum(b.add(real, imaginary), axis=2)
    best = b.argmax(b.reshape(total, (4, 2)), axis=1, dtype="int32")
    half = b.cast(
        b.pad(pooled, [0, 0, 1, 0, 0, 2, 0, 0], np.array([0.25], np.float32)), dtype="fp16"
    )
    b.output(best, half, b.maximum(bounded, np.zeros((1, 1, 1, 1), np.float32)))
    return b.graph()


def integer() -> Graph:
    """Return a quantised convolution, RESCALE for each channel, TABLE, and comparisons."""
    random = np.random.default_rng(1)
    b = Builder("main")
    x = b.input("x", np.int8, (1, 4, 4, 3))
    weight = random.integers(-127, 128, (2, 1, 1, 3)).astype(np.int8)
    convolved = b.conv2d(
        x,
        weight,
        np.array([100, -7], np.int32),
        np.array([3], np.int8),
        pad=[0, 0, 0, 0],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type="int32",
    )
    scaled = b.rescale(
        convolved,
        np.array([1 << 30, 3 << 29], np.int32),
        np.array([36, 37], np.int8),
        output_zp=np.array([-5], np.int8),
        scale32=True,
        rounding_mode="single_round",
        per_channel=True,
        dtype="int8",
    )
    looked_up = b.table(scaled, random.integers(-128, 128, 256).astype(np.int8))
    resized = b.resize(looked_up, [2, 1, 2, 1], [0, 0], [0, 0], mode="nearest")
    part = b.slice(resized, (0, 1, 1, 0), (1, 4, 4, 2))
    wide = b.cast(part, dtype="int32")
    chosen = b.select(b.greater(wide, np.int32(5).reshape(1, 1, 1, 1)), wide, b.negate(wide))
    shifted = b.arithmetic_right_shift(chosen, np.ones((1, 1, 1, 1), np.int32), round=True)
    b.output(b.concat([shifted, b.reverse(shifted, axis=1)], axis=3), b.tile(part, (1, 2, 1, 1)))
    return b.graph()


def segments() -> Graph:
    """Return two graphs with a shader between them, which the converter is asked for with a CUSTOM."""
    b = Builder("main")
    x = b.input("x", np.float32, (1, 8, 8, 2))
    raised = b.add(x, np.ones((1, 1, 1, 2), np.float32))
    shader: dict[str, object] = {"entry_point": "main", "is_vkshader": True}
    shader["workgroup_sizes"] = [8, 8, 2]
    for binding, value in enumerate(("input_0", "output_0")):
        shader[f"{value}_binding"] = binding
        shader[f"{value}_descriptorset"] = 0
        shader[f"{value}_type"] = "TENSOR"
        shader[f"{value}_vkdescriptortype"] = "VK_DESCRIPTOR_TYPE_TENSOR_ARM"
        shader[f"{value}_vkformat"] = "VK_FORMAT_R32_SFLOAT"
    (shaded,) = b.custom(
        [raised],
        [("fp32", (1, 8, 8, 2))],
        operator_name="shade",
        domain_name="com.arm.VulkanCustomShader",
        implementation_attrs=json.dumps(shader).encode(),
    )
    convolved = b.conv2d(
        shaded,
        np.random.default_rng(0).standard_normal((4, 3, 3, 2)).astype(np.float32),
        np.arange(4, dtype=np.float32),
        pad=[1, 1, 1, 1],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type="fp32",
    )
    pooled = b.max_pool2d(convolved, kernel=[2, 2], stride=[2, 2], pad=[0, 0, 0, 0])
    b.output(pooled, b.add(shaded, raised))
    return b.graph()


#: Name of a file without its extension -> its program.
PROGRAMS: Final[dict[str, Callable[[], Graph]]] = {"floating": floating, "integer": integer}


def main() -> None:
    """Write the files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, make in {**PROGRAMS, "segments": segments}.items():
            source = Path(folder) / f"{name}.tosa"
            tc.save(make(), source)
            target = FOLDER / f"{name}.vgf"
            command = ["model-converter", "-i", str(source), "-o", str(target), "--emit-debug-info"]
            subprocess.run(command, check=True)
    for name in ("floating", "segments"):
        words = ["-i", f"{FOLDER / name}.vgf", "--dump-spirv", "0", "-o", f"{FOLDER / name}.spv"]
        subprocess.run(["vgf_dump", *words], check=True)


if __name__ == "__main__":
    main()
