"""Build the archives of a release twice, and require that both builds are equal bit for bit.

    python release/build_archives.py dist

All times in the archives are $SOURCE_DATE_EPOCH, by default the time of the commit. The source archive
is packed again, because setuptools packs the time of the build and the owner of the files into it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def commit_time(root: Path = ROOT) -> int:
    """Return the time of the commit that is checked out, in seconds; 0 outside a git checkout."""
    if not (root / ".git").exists():
        return 0
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=root, capture_output=True, check=True).stdout)


def packed_again(data: bytes, seconds: int) -> bytes:
    """A source archive with the same files, and nothing of the time and the machine of its build."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data)) as source,
        gzip.GzipFile("", "wb", 9, packed, seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid = seconds, 0, 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def build(folder: Path, seconds: int) -> dict[str, bytes]:
    """Build both archives; their contents by name."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, env=environment, check=True)
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return {
        name: packed_again(data, seconds) if name.endswith(".tar.gz") else data
        for name, data in found.items()
    }


def main(folder: str) -> int:
    """Build, compare, and write the archives; the exit code."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or commit_time())
    builds = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as scratch:
            builds.append(build(Path(scratch), seconds))
    first, second = builds
    different = [
        name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
    ]
    if different:
        print(f"two builds differ in {', '.join(sorted(different))}")
        return 1
    Path(folder).mkdir(exist_ok=True)
    for name, data in first.items():
        Path(folder, name).write_bytes(data)
        print(f"{hashlib.sha256(data).hexdigest()}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
