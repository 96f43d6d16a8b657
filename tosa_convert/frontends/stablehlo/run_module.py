"""Runs a module of StableHLO with XLA. The converter writes a copy of this file beside the module."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jax
from jax.extend.backend import get_backend
from jaxlib import _jax, xla_client

#: Files beside this one: the module as a portable artifact, and the types of its arguments.
MODULE_FILE: Final = "module.mlirbc"
ARGUMENTS_FILE: Final = "arguments.json"


def module() -> tuple[Callable[..., Any], list[Any]]:
    """Return the module as a function of arrays, and the types and shapes that it takes."""
    jax.config.update("jax_enable_x64", True)
    folder = Path(__file__).parent
    rows = json.loads((folder / ARGUMENTS_FILE).read_text(encoding="utf-8"))
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in rows]
    client = get_backend("cpu")
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    data = (folder / MODULE_FILE).read_bytes()
    compiled = client.compile_and_load(data, devices, xla_client.CompileOptions())

    def function(*arrays: Any) -> list[Any]:
        results = compiled.execute_sharded([jax.device_put(array) for array in arrays])
        return [parts[0] for parts in results.disassemble_into_single_device_arrays()]

    return function, arguments
