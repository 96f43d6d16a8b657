"""Every command and snippet of the documents runs, in the order of the document."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click import Command, Context
from docs.blocks import Block, blocks, matches, run_block

from manual import commands
from tosa_convert.cli.main import tosa_flatbuffer
from tosa_convert.errors import Category
from tosa_convert.exit_codes import EXIT_BUG, EXIT_CLOSED_PIPE, EXIT_INTERRUPTED, EXIT_WEAK
from tosa_convert.formats.bindings.packages import installed

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

#: Documents whose blocks are run -> the packages that they need.
RUN = {
    "README.md": (),
    "docs/backends.md": (),
    "docs/command-line.md": ("tosa-tools",),
    "docs/python.md": ("torch-mlir", "tosa-tools"),
    "docs/builder.md": ("tosa-tools",),
    "docs/diff.md": (),
    "docs/doctor.md": (),
    "docs/comparison.md": ("torch-mlir", "tosa-tools"),
    "docs/extensions.md": (),
    "docs/formats.md": ("torch-mlir",),
    "docs/frontends.md": (),
    "docs/golden.md": ("torch-mlir", "tosa-tools"),
    "docs/power.md": ("fast-sugiyama",),
    "docs/report.md": ("tosa-tools", "fast-sugiyama"),
    "docs/rewrites.md": (),
    "docs/show.md": (),
    "docs/upgrade.md": (),
    "docs/validation.md": ("torch-mlir",),
    "docs/zoo.md": ("torch",),
    "docs/tutorial.md": ("torch-mlir", "tosa-tools"),
    "docs/guides/accuracy.md": ("tosa-tools",),
    "docs/guides/cluster.md": ("tosa-tools",),
    "docs/guides/custom-operators.md": (),
    "docs/guides/ci.md": ("lit", "filecheck"),
    "docs/guides/iree.md": ("tosa-tools",),
    "docs/guides/jax.md": ("jax", "flax", "tosa-tools"),
    "docs/guides/large-programs.md": ("torch-mlir",),
    "docs/guides/mismatch.md": ("tosa-tools",),
    "docs/guides/onnx.md": (),
    "docs/guides/pipeline.md": (),
    "docs/guides/pytest.md": (),
    "docs/guides/qualify-a-backend.md": ("tosa-tools",),
    "docs/guides/quantise.md": (),
    "docs/guides/report-a-bug.md": (),
    "docs/guides/shell.md": (),
    "docs/guides/torch.md": ("torch-mlir", "tosa-tools"),
    "docs/guides/vela.md": ("tosa-tools",),
    "docs/guides/vgf.md": (),
    "docs/guides/weights.md": (),
    "docs/guides/write-a-rewrite.md": (),
}

#: Those whose blocks run in every run of the tests; those of the others are slow.
ALWAYS = ("README.md", "docs/guides/weights.md")

#: A line of the README's first block.
INSTALLS = re.compile(r"pip install (\.|'\.\[\w+\]') && (?P<command>.+)")


def blocks_of(root: Path, document: str) -> list[Block]:
    return blocks((root / document).read_text(encoding="utf-8"))


def test_the_blocks_of_every_guide_are_run(root: Path) -> None:
    guides = {path.relative_to(root).as_posix() for path in root.glob("docs/guides/*.md")}
    assert guides | {"docs/tutorial.md"} <= set(RUN)


def first_block(root: Path) -> list[re.Match[str]]:
    block = blocks_of(root, "README.md")[0]
    assert block.language == "sh", f"README.md:{block.line}: the first block is not a shell block"
    lines = [INSTALLS.fullmatch(line) for line in block.text.splitlines()]
    assert all(lines), f"README.md:{block.line}: expected `pip install . && COMMAND`"
    return [match for match in lines if match is not None]


def test_the_first_block_of_the_readme_installs_and_converts_then_installs_and_tests(
    root: Path,
) -> None:
    convert, test = first_block(root)
    # Without extras: numpy, ml_dtypes and click are enough for it.
    assert convert[1] == "."
    assert convert["command"].startswith("tosa-flatbuffer-convert examples/")
    # The second runs this test suite, so it is not run here; .ci/run executes both lines.
    assert test["command"] == "python -m pytest"


@pytest.mark.skipif(tomllib is None, reason="tomllib is new in Python 3.11")
def test_the_extras_that_the_readme_installs_exist(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = extras_in((root / "README.md").read_text(encoding="utf-8"))
    assert {"mlir", "test"} <= extras <= set(project["optional-dependencies"])


@pytest.mark.skipif(tomllib is None, reason="tomllib is new in Python 3.11")
def test_the_extras_that_the_documents_install_exist(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for path in root.glob("docs/**/*.md"):
        extras = extras_in(path.read_text(encoding="utf-8"))
        assert extras <= set(project["optional-dependencies"]), path.name


def test_every_document_installs_from_the_clone(root: Path) -> None:
    """The package index does not have the package yet."""
    paths = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/*.*")]
    found = [path.name for path in paths if "'tosa-convert[" in path.read_text("utf-8", "replace")]
    assert found == ["release.md"], "says when this changes"


def extras_in(text: str) -> set[str]:
    """Return the extras that a document installs: `pip install '.[mlir,refmodel]'`."""
    lists = re.findall(r"'?\.\[([\w,]+)\]", text)
    return {name for names in lists for name in names.split(",")}


@pytest.mark.parametrize(
    "document",
    [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.slow) for name in RUN],
)
@pytest.mark.skipif(sys.platform == "win32", reason="the documents' commands are for bash")
def test_every_block_of_a_document_runs(root: Path, document: str, tmp_path: Path) -> None:
    for package in RUN[document]:
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{document} is about {package}, which is not installed")
        named = re.search(rf"\b{package} ([\d.]+\d)", (root / document).read_text(encoding="utf-8"))
        if document == "docs/comparison.md" and named is not None and named[1] != version:
            pytest.skip(f"{document} is about {named[0]}; version {version} is installed")
    assert shutil.which("bash"), "the documents' commands are for bash"
    document_blocks = blocks_of(root, document)
    if document == "README.md":
        convert, _ = first_block(root)
        # Without the installation, which .ci/run tests.
        document_blocks[0] = Block("sh", document_blocks[0].line, convert["command"])
    shutil.copytree(root / "examples", tmp_path / "examples", ignore=ignored)
    left_out: dict[str, list[int]] = {}
    for block in document_blocks:
        if missing := [package for package in block.needs if not is_installed(package)]:
            left_out.setdefault(", ".join(missing), []).append(block.line)
            continue
        problem = run_block(block, tmp_path)
        assert not problem, f"{document}:{block.line}: {problem}"
    if left_out:
        reasons = [f"lines {lines} need {missing}" for missing, lines in left_out.items()]
        pytest.skip(f"{document}: {'; '.join(reasons)}, not installed; all other blocks ran")


def is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def ignored(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__pycache__"}


def test_the_default_bindings_are_those_that_the_readme_installs(root: Path) -> None:
    pytest.importorskip("torch_mlir")
    assert next(iter(installed())) == "torch_mlir"


def verbs() -> dict[str, Command]:
    context = Context(tosa_flatbuffer)
    commands = {name: tosa_flatbuffer.get_command(context, name) for name in names(context)}
    return {name: command for name, command in commands.items() if command is not None}


def names(context: Context) -> list[str]:
    return tosa_flatbuffer.list_commands(context)


def test_the_page_of_the_command_line_names_all_verbs_and_no_others(root: Path) -> None:
    text = (root / "docs/command-line.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`?tosa-flatbuffer ([a-z]+)\b", text))
    named |= set(re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE))
    assert named == set(verbs()), "every verb has a row in the table of verbs"


#: The documents of `docs` for users; those about other programs and the past name other options.
WITH_OPTIONS = [
    f"docs/{name}.md"
    for name in (
        *(
            "command-line",
            "python",
            "builder",
            "diff",
            "doctor",
            "errors",
            "formats",
            "frontends",
            "golden",
        ),
        *("model-suites", "report", "rewrites", "show", "tutorial", "upgrade", "validation"),
        *("guides/jax", "guides/large-programs", "guides/mismatch"),
        *("guides/report-a-bug", "guides/shell", "guides/torch", "guides/weights"),
    )
]


@pytest.mark.parametrize(
    "document",
    ["README.md", *WITH_OPTIONS],
)
def test_every_option_that_a_document_mentions_exists(root: Path, document: str) -> None:
    text = (root / document).read_text(encoding="utf-8")
    # Lines that begin with another program have options of that program.
    # Scripts of the checkout have options of their own.
    text = re.sub(r"`python \w+/[^`]*`", "", text)
    lines = [
        line for line in text.splitlines() if not re.match(r"(\$ )?(flatc|tosa-opt|nox)", line)
    ]
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", "\n".join(lines)))
    existing = {"--help", "--version"}
    for documented in commands.verbs():
        existing.update(option for row in documented.command.params for option in row.opts)
    assert mentioned - existing - OTHERS == set()


#: Options of other programs that the text of the documents mentions.
OTHERS = {"--tosa-serialize", "--tosa-deserialize", "--json", "--strict-json", "--raw-binary"} | {
    "--mlir-print-op-generic",
    "--accelerator-config",
    "--require-static-shape",
    "--iree-input-type",
    "--no-ext-diff",
    "--mlir-print-debuginfo",
    "--binary",
    "--dump-spirv",
}


def test_the_page_of_the_command_line_lists_the_exit_codes(root: Path) -> None:
    text = (root / "docs/command-line.md").read_text(encoding="utf-8").partition("## Exit codes")[2]
    listed = set(map(int, re.findall(r"^\| (\d+) \|", text, re.MULTILINE)))
    others = {0, 1, EXIT_WEAK, EXIT_BUG, EXIT_INTERRUPTED, EXIT_CLOSED_PIPE}
    assert listed == {*others, *map(int, Category)}


# -- the runner of blocks can fail -----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "```bash\nls\n```\n",
        "```\nls\n```\n",
        "~~~sh\nls\n~~~\n",
        "1. one\n   ```sh\n   ls\n   ```\n",
        "````sh\nls\n````\n",
        "```sh\nls\n",
        "Text:\n\n    ls\n",
        "Text:\n\n\tls\n",
        "<pre>ls</pre>\n",
    ],
)
def test_a_block_that_would_not_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line \d"):
        blocks(text)


def test_blocks_have_a_language_a_line_and_a_text() -> None:
    text = "a\n\n```sh\nls\n\npwd\n```\n```python\nx = 1\n```\n"
    assert blocks(text) == [Block("sh", 3, "ls\n\npwd\n"), Block("python", 8, "x = 1\n")]


@pytest.mark.skipif(sys.platform == "win32", reason="the documents' commands are for bash")
@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("sh", "true\n", ""),
        ("sh", "false\ntrue\n", "exit code 1"),
        ("sh", "false | true\n", "exit code 1"),
        ("python", "assert True\n", ""),
        ("python", "assert False\n", "AssertionError"),
        ("python", "import warnings\nwarnings.warn('w')\n", "UserWarning"),
        ("console", "$ echo one; echo two >&2\none\ntwo\n", ""),
        ("console", "$ echo one\n$ echo two\ntwo\n", "printed"),
        ("console", "$ echo one\ntwo\n", "the document says"),
        ("console", "$ false\n", "exit code 1"),
        ("console", "one\n", "is not the output of a command"),
        ("python", "# f.py\nraise SystemExit(1)\n", ""),
        ("mlir", "// f.mlir\nmodule {}\n", ""),
        ("mlir", "module {}\n", "expected `// NAME`"),
        ("mlir", "// ../f.mlir\n", "expected `// NAME`"),
    ],
)
def test_a_block_that_fails_is_reported(
    language: str, text: str, expected: str, tmp_path: Path
) -> None:
    problem = run_block(Block(language, 1, text), tmp_path)
    assert expected in problem
    assert bool(expected) == bool(problem)


def test_a_block_that_says_what_to_install_is_not_run(tmp_path: Path) -> None:
    (block,) = blocks("```sh\npip install no_such_package_anywhere\n```\n")
    assert block.installs
    assert not run_block(block, tmp_path)
    (block,) = blocks("```sh\npip install x\nfalse\n```\n")
    assert not block.installs


def test_blocks_need_packages_until_the_next_heading() -> None:
    text = "```sh\nls\n```\n<!-- needs: torch x -->\n```sh\nls\n```\n## Next\n```sh\nls\n```\n"
    assert [block.needs for block in blocks(text)] == [(), ("torch", "x"), ()]


def test_a_block_that_is_not_run_says_why(tmp_path: Path) -> None:
    first, second = blocks("<!-- not run: hours -->\n\n```sh\nfalse\n```\n```sh\nfalse\n```\n")
    assert (first.not_run, second.not_run) == ("hours", "")
    assert not run_block(first, tmp_path)
    assert run_block(second, tmp_path)
    assert len(blocks("<!-- not run: slow -->\n```cpp\nint x;\n```\n")) == 1
    with pytest.raises(ValueError, match="no way to run"):
        blocks("```cpp\nint x;\n```\n")


def test_output_is_compared_line_by_line() -> None:
    assert matches("a\nb\n", ["a", "b"])
    assert matches("a\nb", ["a", "b"])
    assert not matches("a\nb\nc\n", ["a", "b"])
    assert not matches("a\n", ["a", "b"])
    assert matches("a\nx\ny\nb\n", ["a", "...", "b"])
    assert matches("took 12 ms\n", ["took ... ms"])
    assert not matches("took 12 s\n", ["took ... ms"])
