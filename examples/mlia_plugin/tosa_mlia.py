"""A transformer of MLIA: models that tosa-convert reads become TOSA programs for Vela."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

#: MLIA knows a model by its extension; for .tflite and .pt2 it has converters of its own.
EXTENSIONS = frozenset((".onnx", ".keras", ".mlir", ".mlirbc"))

#: MLIA reads the names below from this module.
plugin_interface_version = "0.0.1"


class Registry(Protocol):
    """MLIA's registry of transformers."""

    def register(self, name: str, item: Any, /) -> Any: ...


class ToTosa:
    """Converts a model to a `.tosa` file that Vela reads."""

    def supports(
        self, model: object, target_format: str, transform_options: dict[str, Any] | None = None
    ) -> bool:
        """Return whether this converts the model to the format."""
        is_known = isinstance(model, Path) and model.suffix.lower() in EXTENSIONS
        return is_known and target_format == "tosa" and not transform_options

    def __call__(self, model: Path, output_dir: Path) -> Path:
        """Convert a model, and return the path of its program."""
        program = Path(output_dir, f"{model.stem}.tosa")
        command = [sys.executable, "-m", "tosa_convert", "convert", str(model), "-o", str(program)]
        done = subprocess.run(
            [*command, "--for", "vela:ethos-u85"], stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            from mlia.core.errors import ConfigurationError

            raise ConfigurationError(done.stderr)
        return program


def register(registry: Registry) -> None:
    """Give MLIA the transformer."""
    registry.register("model_to_tosa", ToTosa())
