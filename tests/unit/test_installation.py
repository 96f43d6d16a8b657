"""The command that installs an extra comes from where the package came from."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tosa_convert import installation
from tosa_convert.installation import install_command


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder that looks like a clone of the repository."""
    folder = tmp_path / "my clone"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "tosa-convert"\n', encoding="utf-8")
    return folder


@pytest.fixture
def installed_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return the package lies in site-packages, with this origin."""

    def install(origin: dict[str, Any] | None) -> None:
        class Distribution:
            def read_text(self, name: str) -> str | None:
                assert name == "direct_url.json"
                return None if origin is None else json.dumps(origin)

        module = tmp_path / "site-packages" / "tosa_convert" / "installation.py"
        monkeypatch.setattr(installation, "__file__", str(module))
        monkeypatch.setattr(metadata, "distribution", lambda name: Distribution())

    return install


def test_a_copy_of_a_clone_is_installed_from_the_clone_again(
    installed_from: Any, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from({"url": clone.as_uri(), "dir_info": {}})
    monkeypatch.chdir(clone)
    assert install_command("torch") == "pip install '.[torch]'"
    monkeypatch.chdir(tmp_path)
    assert shlex.split(install_command("torch")) == ["pip", "install", f"{clone}[torch]"]


def test_a_clone_that_is_gone_is_not_named(installed_from: Any, clone: Path) -> None:
    installed_from({"url": (clone / "gone").as_uri(), "dir_info": {}})
    assert install_command("onnx") == "pip install 'tosa-convert[onnx]'"


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, "tosa-convert[onnx]"),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "tosa-convert[onnx] @ git+https://host/x.git@12ab",
        ),
        (
            {"url": "file:///a/tosa_convert-1.0-py3-none-any.whl", "archive_info": {}},
            "tosa-convert[onnx] @ file:///a/tosa_convert-1.0-py3-none-any.whl",
        ),
    ],
)
def test_the_origin_is_named(
    installed_from: Any, origin: dict[str, Any] | None, requirement: str
) -> None:
    installed_from(origin)
    assert shlex.split(install_command("onnx")) == ["pip", "install", requirement]


def test_another_python_installs_with_its_own_pip(installed_from: Any) -> None:
    installed_from(None)
    command = install_command("jax", "/a b/python")
    assert shlex.split(command) == ["/a b/python", "-m", "pip", "install", "tosa-convert[jax]"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_every_extra_that_a_message_names_exists(root: Path) -> None:
    import re

    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        extra
        for path in (root / "tosa_convert").rglob("*.py")
        for extra in re.findall(r'install_command\("(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert {"mlir", "refmodel", "report"} <= named <= set(project["optional-dependencies"])
