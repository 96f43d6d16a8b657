"""The recipe "Add a framework" of CONTRIBUTING.md, carried out in a copy of the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from docs.recipe_copy import Edit, changed, copy_checkout, recipe, refuse_stale, run

ROW: Final = """\
        Frontend(
            name="tinynet",
            reads="nets of tinynet (file.py:FACTORY)",
            extra="tinynet",
            packages={"tinynet": "tinynet"},
            converter="tosa_convert.frontends.tinynet.convert",
            imports=("tinynet",),
        ),
"""
CONVERTER: Final = '''\
"""Nets of tinynet, whose layers are operators of TOSA."""

from __future__ import annotations

from pathlib import Path

import tinynet

from tosa_convert.builder import Builder
from tosa_convert.frontends.lower_model import write_program
from tosa_convert.frontends.process.python_file import call_factory
from tosa_convert.frontends.process.request import Interface, NotLowered, Request, Value

_LOWERINGS = {"abs": Builder.abs, "exp": Builder.exp}


def lower(request: Request, folder: Path) -> Interface:
    """Lower the net that a factory returns."""
    net: tinynet.Net = call_factory(Path(request.source), request.member, request.users_folder)
    rows = [NotLowered(operator=name) for name in net.layers if name not in _LOWERINGS]
    if rows:
        return Interface(not_lowered=rows)
    b = Builder("main")
    x = b.input("x", "fp32", (4,))
    for name in net.layers:
        x = _LOWERINGS[name](b, x)
    b.output(x)
    write_program(b.graph(), folder)
    return Interface(inputs=[Value(name="image")], outputs=[Value(name="score")])
'''
TEST: Final = '''\
"""Nets of tinynet."""

from __future__ import annotations

from pathlib import Path

import pytest

import tosa_convert as tc

pytest.importorskip("tinynet")


def net(folder: Path, *layers: str) -> str:
    path = folder / "net.py"
    path.write_text(f"import tinynet\\n\\ndef make():\\n    return tinynet.Net({layers})\\n")
    return f"{path}:make"


def test_a_net_has_its_layers_and_names(tmp_path: Path) -> None:
    graph = tc.frontends.from_file(net(tmp_path, "abs", "exp"))
    assert [op.spec.name for op in graph.main.operators] == ["ABS", "EXP"]
    assert (graph.main.inputs, graph.main.outputs) == (["image"], ["score"])


def test_a_layer_that_does_not_lower_is_named(tmp_path: Path) -> None:
    with pytest.raises(tc.TosaConvertError, match="sort has no lowering to TOSA"):
        tc.frontends.from_file(net(tmp_path, "abs", "sort"))
'''
RELEASES: Final = """\
# The releases with which `nox -s frontends` tests this group; `-- --newest` tries the newest.
tinynet==1.0 # MIT: makes nets
tosa-tools==2026.8.0
"""
EDITS: Final[tuple[Edit, ...]] = (
    (
        "tosa_convert/frontends/table.py",
        '            route_of="torch",\n        ),\n',
        f'            route_of="torch",\n        ),\n{ROW}',
    ),
    ("pyproject.toml", 'jax = ["jax>=0.10"]\n', 'jax = ["jax>=0.10"]\ntinynet = ["tinynet>=1"]\n'),
    ("tosa_convert/frontends/tinynet/convert.py", "", CONVERTER),
    ("docs/frontends.md", "## ONNX\n", "## Tinynet\n\nIt needs the extra `tinynet`.\n\n## ONNX\n"),
    ("tests/frontends/test_tinynet.py", "", TEST),
    ("third_party/frontends/tinynet.txt", "", RELEASES),
)
#: Tests of what belongs to every framework.
TESTED: Final = (
    "tests/docs/test_frontend_groups.py",
    "tests/docs/test_house.py",
    "tests/docs/test_links.py::test_every_required_package_is_listed_with_its_licence",
    "tests/frontends/test_frontends_verb.py",
    "tests/frontends/test_imports.py",
    "tests/frontends/test_tinynet.py",
    "tests/frontends/test_via.py",
    "tests/unit/cli/test_shell_completion.py",
)


def test_the_recipe_names_every_file_of_a_framework_and_there_are_six() -> None:
    files = {name for name, _, _ in EDITS}
    assert len(files) == 6
    for name in files:
        assert f"`{name.replace('tinynet', '<name>')}`" in recipe("Add a framework"), name


def test_the_steps_fit_the_files() -> None:
    refuse_stale(EDITS)


@pytest.mark.slow
def test_the_framework_is_recognised_converted_listed_and_tested(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    package = "class Net:\n    def __init__(self, layers):\n        self.layers = layers\n"
    (tmp_path / "packages" / "tinynet.py").write_text(package, encoding="utf-8")
    (tmp_path / "copy").mkdir()
    root = copy_checkout(tmp_path / "copy", EDITS)
    assert changed(root) == {name for name, _, _ in EDITS}
    packages = str(tmp_path / "packages")
    listed = run(root, "-m", "tosa_convert", "frontends", "tinynet", path=packages, fails=True)
    assert "nets of tinynet" in listed
    find = "import setuptools as s; print(s.find_namespace_packages(include=['tosa_convert*']))"
    assert "'tosa_convert.frontends.tinynet'" in run(root, "-c", find)
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "-rfE")
    output = run(root, "-m", "pytest", *options, *TESTED, path=packages)
    assert "tests/frontends/test_tinynet.py" not in output, output
