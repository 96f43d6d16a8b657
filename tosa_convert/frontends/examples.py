"""Example arguments of a factory in a Python file, which its program can be run on.

A converter writes them if it is asked to, since only it has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.frontends.process.request import Request

EXAMPLES_FILE: Final = "examples.npz"
#: The option of a request that asks for them.
WANTED: Final[Mapping[str, str]] = {"examples": "wanted"}


def write_examples(request: Request, folder: Path, arrays: list[Any]) -> None:
    """Write the example of each input, in order, if the request asks for them.

    arrays: types that numpy does not have as opaque bytes; None for an input without an example.
    """
    if request.options.get("examples") != WANTED["examples"]:
        return
    # In the child, after its converter: until then it needs the standard library only.
    import numpy as np

    named = {str(index): array for index, array in enumerate(arrays) if array is not None}
    np.savez(folder / EXAMPLES_FILE, **named)


def read_examples(folder: Path, inputs: list[str]) -> dict[str, Any]:
    """Read the examples that a converter wrote, by the names of the program's inputs."""
    path = folder / EXAMPLES_FILE
    if not path.exists():
        return {}
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            return {inputs[int(key)]: stored[key] for key in stored.files}
    except (OSError, ValueError, IndexError, zipfile.BadZipFile) as error:
        message = f"the example arguments cannot be read: {error}"
        raise fail("frontend-failed", EXAMPLES_FILE, message, "please report it") from None
