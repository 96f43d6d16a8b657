"""Check the archives of a release: what they contain, and that the wheel works in a bare environment.

    python release/check_archives.py dist [PYTHON ...]

For each interpreter (by default the one that runs this), the wheel is installed into a new environment,
`pip check` runs, the man pages are there, and the first command of the README converts the example
network.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: Files of the wheel that are not Python, below the package or the metadata.
_WHEEL: Final = (
    *("tosa_convert/py.typed", "tosa_convert/builder/*.pyi", "*.dist-info/*"),
    "tosa_convert/cli/help/*.txt",
)
#: The explanations of errors, which setup.py copies from docs/.
_ERRORS: Final = "tosa_convert/errors.md"
#: The man pages in the wheel, below the folder of an environment.
_PAGES: Final = "share/man/man1"
#: The bill of materials in the wheel, as release/bill_of_materials.py writes it.
_BILL: Final = "*.dist-info/sboms/tosa-convert.cdx.json"


def source_files(root: Path = ROOT) -> set[str] | None:
    """Return the files that git tracks; None outside a git checkout.

    What commands leave in a checkout is not part of it, whatever its name is.
    """
    if not (root / ".git").exists():  # may be a file; a folder above is another repository
        return None
    return set(run("git", "ls-files", "-z", cwd=str(root)).split("\0")) - {""}


def sdist_problems(names: set[str], files: set[str]) -> Iterator[str]:
    """What is wrong with the source archive: it lacks a file, or has one that is not a source."""
    written = {"PKG-INFO", "setup.cfg"}
    for name in sorted(files - names):
        yield f"the sdist lacks {name}"
    for name in sorted(names - files - written):
        if ".egg-info/" not in name:
            yield f"the sdist has {name}, which is not a file of the repository"


def wheel_problems(names: set[str], files: set[str]) -> Iterator[str]:
    """Yield what is wrong with the wheel: it lacks a module, or has more than the package."""
    modules = {name for name in files if name.startswith("tosa_convert/")} | {_ERRORS}
    for name in sorted(modules - names):
        yield f"the wheel lacks {name}"
    if not any(fnmatch(name, _BILL) for name in names):
        yield f"the wheel lacks {_BILL}"
    for name in sorted(names - modules):
        if not any(fnmatch(name, pattern) for pattern in (*_WHEEL, f"*.data/data/{_PAGES}/*.1")):
            yield f"the wheel has {name}"


def archive_names(dist: Path) -> tuple[set[str], set[str], Path]:
    """Return the files in the source archive and in the wheel, and the wheel."""
    (sdist,), (wheel,) = sorted(dist.glob("*.tar.gz")), sorted(dist.glob("*.whl"))
    with tarfile.open(sdist) as archive:
        inside = [member.name for member in archive.getmembers() if member.isfile()]
    with zipfile.ZipFile(wheel) as zipped:
        return {name.partition("/")[2] for name in inside}, set(zipped.namelist()), wheel


def try_wheel(wheel: Path, python: str, readme: str) -> str:
    """Install a wheel into a bare environment of an interpreter and convert; what pip installed.

    Each program and each verb must have its man page there.
    """
    command = re.search(r"^pip install \. && tosa-flatbuffer-convert (.+)$", readme, re.MULTILINE)
    assert command is not None, "the README's first block has changed"
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        programs = Path(folder, "Scripts" if sys.platform == "win32" else "bin")
        run(programs / "python", "-m", "pip", "install", "--quiet", wheel.resolve())
        run(programs / "python", "-m", "pip", "check")
        list_verbs = "from tosa_convert.cli.main import VERBS; print(*VERBS)"
        for verb in ("", *run(programs / "python", "-c", list_verbs).split()):
            page = Path(folder, _PAGES, f"tosa-flatbuffer{verb and '-'}{verb}.1")
            assert page.read_text(encoding="utf-8").startswith(".TH "), page
            _compare_help(programs / "tosa-flatbuffer", *verb.split())
        _compare_help(programs / "tosa-flatbuffer-convert")
        source, _, target = command[1].split()
        target = str(Path(folder, target))
        run(programs / "tosa-flatbuffer-convert", ROOT / source, "-o", target, cwd=folder)
        run(programs / "tosa-flatbuffer", "validate", target, cwd=folder)
        return run(programs / "python", "-m", "pip", "list", "--format", "freeze")


def _compare_help(*command: str | Path) -> None:
    """Compare the help that the wheel brings with what click makes, which follows $COLUMNS."""
    made, brought = run(*command, "--help", COLUMNS="80"), run(*command, "--help")
    assert made == brought, f"the help of {command} differs"


def run(*words: str | Path, cwd: str | None = None, **variables: str) -> str:
    """Run a program, without what $PYTHONPATH and $COLUMNS say; its standard output."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS")
    }
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def main(folder: str, *pythons: str) -> int:
    """Check the archives in a folder; the exit code."""
    in_sdist, in_wheel, wheel = archive_names(Path(folder))
    files = source_files()
    problems: list[str] = []
    if files is None:
        print("this is not a git checkout: the contents of the archives are not compared with it")
    else:
        problems += [*sdist_problems(in_sdist, files), *wheel_problems(in_wheel, files)]
    counts = f"{len(in_sdist)} files in the sdist, {len(in_wheel)} in the wheel"
    print("\n".join(problems) or counts)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for python in pythons or (sys.executable,):
        version = run(python, "--version").strip()
        print(f"{version}: {', '.join(try_wheel(wheel, python, readme).split())}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
