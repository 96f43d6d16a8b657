"""How this package was installed, and so the command that adds what is missing."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = "tosa-convert"


def install_command(extra: str, python: str = "") -> str:
    """Return the command that installs an extra of this package from where the package came from.

    That is a checkout, a repository or an archive, or else the package index. Source: `direct_url.json`,
    which pip writes for all but the index (PyPA's "Recording the Direct URL Origin").
    """
    from pathlib import Path  # takes as long as three modules of ours

    pip = f"{shlex.quote(python)} -m pip install" if python else "pip install"
    checkout = Path(__file__).resolve().parents[1]
    if _is_checkout(checkout):
        return f"{pip} -e {_quoted_path(checkout, extra)}"
    origin = _origin()
    url = str(origin.get("url", ""))
    if "dir_info" in origin:
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        folder = Path(url2pathname(urlsplit(url).path))
        if _is_checkout(folder):
            return f"{pip} {_quoted_path(folder, extra)}"
    elif vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
        return f"{pip} {shlex.quote(f'{_NAME}[{extra}] @ {url}')}"
    elif url:
        return f"{pip} {shlex.quote(f'{_NAME}[{extra}] @ {url}')}"
    return f"{pip} {shlex.quote(f'{_NAME}[{extra}]')}"


def _is_checkout(folder: Path) -> bool:
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return f'name = "{_NAME}"' in text.splitlines()


def _quoted_path(folder: Path, extra: str) -> str:
    here = os.path.realpath(os.curdir) == os.path.realpath(folder)
    return shlex.quote(f"{'.' if here else folder}[{extra}]")


def _origin() -> dict[str, Any]:
    """Return the content of `direct_url.json`; nothing if the package came from the index."""
    from importlib import metadata  # takes as long as converting a small file

    try:
        text = metadata.distribution(_NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {}
    if not text:
        return {}
    import json  # most commands advise no extra

    return dict(json.loads(text))
