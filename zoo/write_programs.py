"""Writes the program of each network of the zoo, by each way to TOSA.

python zoo/write_programs.py FOLDER WAY ...

A way is `torch`, `jax`, `onnx=MODELS` or `tflite=MODELS`, with the folder of models that `write_onnx.py`
or `write_tflite.py` wrote. FOLDER/torch/unet.tosa is the program of a network; FOLDER/torch/unet.txt has
the reason where it does not lower. Each way needs the packages of its framework, so that several
environments may fill a folder. What is there stays.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from networks import JAX, TORCH, networks

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError

_NARROW: Final = "i64,f64"
_FAMILIES: Final = {"torch": TORCH, "jax": JAX}


def programs(way: str) -> Iterator[tuple[str, Callable[[], tc.Graph]]]:
    """Iterate over name of each network of a way, and what makes its program."""
    frontend, _, models = way.partition("=")
    if frontend in _FAMILIES:
        for _, name, make in networks(_FAMILIES[frontend]):
            yield f"{frontend}/{name}", partial(_from_function, frontend, make)
        return
    for path in sorted(Path(models).rglob(f"*.{frontend}")):
        name = path.relative_to(models).with_suffix("").as_posix()
        narrow = _NARROW if frontend == "onnx" else ""
        yield f"{frontend}/{name}", partial(tc.frontends.from_file, path, narrow=narrow)


def _from_function(frontend: str, make: Callable[[], Any]) -> tc.Graph:
    model, inputs = make()
    if frontend == "torch":
        return tc.frontends.from_torch(model, inputs, narrow=_NARROW)
    return tc.frontends.from_jax(model, inputs)


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    for way in sys.argv[2:]:
        for name, lower in programs(way):
            target = folder / f"{name}.tosa"
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                continue
            try:
                tc.save(lower(), target)
                print(name, flush=True)
            except TosaConvertError as error:
                target.with_suffix(".txt").write_text(f"{error}\n", encoding="utf-8")
                print(f"{name}: {error.findings[0]}", flush=True)


if __name__ == "__main__":
    main()
