"""Coverage-guided inputs: `python fuzz/atheris_fuzz.py flatbuffer -max_total_time=60`.

Needs atheris (`pip install '.[fuzz]'`, Linux on x86-64). The first argument is what is read:
flatbuffer, json or weights (a manifest and one .npy); "all" runs each for ten seconds, and says so if
atheris is not installed. The others are libFuzzer's options, such as -runs=N, and folders of seeds. An
exception that is not a TosaConvertError ends the run, and libFuzzer leaves the input as crash-*.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

HARNESSES: Final = ("flatbuffer", "json", "weights")
SECONDS: Final = 10


def seeds(name: str, folder: Path) -> None:
    """Write the seeds of a harness into a folder: the corpus in the form that it reads."""
    import targets

    target = targets.make(
        "tosa" if name == "flatbuffer" else name, [targets.CORPUS], folder / "tmp"
    )
    inputs = folder / "inputs"
    inputs.mkdir()
    for number, seed in enumerate(target.seeds):
        if name == "weights":
            manifest = seed[1]["manifest.json"]
            array = next(data for file, data in seed[1].items() if file != "manifest.json")
            seed = len(manifest).to_bytes(2, "little") + manifest + array
        (inputs / str(number)).write_bytes(seed)


def harness(name: str, folder: Path) -> Callable[[bytes], None]:
    """Return the function that reads an input."""
    import targets

    from tosa_convert.errors import TosaConvertError

    if name != "weights":
        reader = targets.Flatbuffer if name == "flatbuffer" else targets.Json

        def read(data: bytes) -> None:
            try:
                # Without an object, which would read its seeds again.
                reader.use(None, data)  # type: ignore[arg-type]
            except TosaConvertError as error:
                str(error)

        return read
    target = targets.make(name, [targets.CORPUS], folder / "target")
    program, files = target.seeds[0]
    array = json.loads(files["manifest.json"])["constants"][0]["file"]

    def weigh(data: bytes) -> None:
        size = int.from_bytes(data[:2], "little")
        changed = {"manifest.json": data[2 : 2 + size], array: data[2 + size :]}
        target.run((program, files | changed, {}, bool(size % 2)))

    return weigh


def run_all() -> int:
    """Run each harness for a while, in a process each; 1 if one failed."""
    if importlib.util.find_spec("atheris") is None:
        print("not run: atheris is not installed; it has wheels for Linux on x86-64")
        return 0
    codes = {}
    with tempfile.TemporaryDirectory(prefix="atheris-") as folder:
        for name in HARNESSES:
            done = subprocess.run(
                [
                    sys.executable,
                    __file__,
                    name,
                    f"-max_total_time={SECONDS}",
                    "-rss_limit_mb=4096",
                ],
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=folder,
                check=False,
            )
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            codes[name] = done.returncode
            print(f"{name}: exit code {done.returncode}; {lines[-1] if lines else ''}")
            if done.returncode:
                print(done.stderr[-4000:])
    return 1 if any(codes.values()) else 0


def main() -> None:
    """The command."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["all"]:
        sys.exit(run_all())
    if not arguments or arguments[0] not in HARNESSES:
        sys.exit(f"expected one of {', '.join(HARNESSES)}, all")
    import atheris

    with atheris.instrument_imports(include=["tosa_convert"]):
        import tosa_convert.formats.flatbuffer.read
        import tosa_convert.formats.flatbuffer.write
        import tosa_convert.formats.json.read
        import tosa_convert.formats.json.write
        import tosa_convert.formats.weights.read  # noqa: F401 - imported here to be instrumented
    with tempfile.TemporaryDirectory(prefix="atheris-") as place:
        folder = Path(place)
        seeds(arguments[0], folder)
        atheris.Setup(
            [sys.argv[0], *arguments[1:], str(folder / "inputs")], harness(arguments[0], folder)
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
