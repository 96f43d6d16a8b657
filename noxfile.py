"""The one door for commands, here and in CI; CONTRIBUTING.md lists the sessions.

`nox` alone runs lint, types and tests. Each session makes an environment of its own; in one that
already has `pip install '.[dev]'`, `nox --no-venv --no-install -s NAME` uses that.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent / "tests" / "frontends"))

from groups import groups

nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True

ROOT = Path(__file__).parent
#: Where the official suite is kept between runs.
SUITE = ROOT / ".nox" / "suite"
#: The groups of frameworks, each a file of third_party/frontends.
FRONTENDS = groups()
#: Groups whose pins do not fit those of tosa-tools: TensorFlow wants a younger flatbuffers.
WITHOUT_TOSA_TOOLS = {"keras"}
#: Where the lowered networks of the zoo are kept, and what programs did with their files.
CONSUMERS = ROOT / ".nox" / "consumers-state"
#: Programs that read files, in environments of their own: their pins contradict one another.
CONSUMER_GROUPS = ("vela", "arm")
#: Where the answers of consumers to the official suite are kept, and their pages.
SCOREBOARD = ROOT / ".nox" / "scoreboard"
#: Where the answers about published networks are kept, and small configurations.
NETWORKS = ROOT / ".nox" / "networks-state"
#: Where the official negative tests are kept between runs.
NEGATIVES = ROOT / ".nox" / "negatives"

#: Where the answers for the bench of faulty backends are kept between runs.
FAULTS = ROOT / ".nox" / "faults"
#: Part of the package -> the percentage of its lines and branches that tests have to run.
COVERED = {f"tosa_convert/{name}/*": 100 for name in ("graph", "formats/wire", "rules")}
COVERED["tosa_convert/*"] = 97
#: Where the verdicts on mutants are kept between runs.
MUTANTS = ROOT / ".nox" / "mutants"


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules, and its formatting."""
    session.install("ruff>=0.6")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict; the builder's stub; what mypy and pyright say of the public functions."""
    session.install(".[dev]")
    session.run("mypy")
    session.run("python", "schema/generate_stubs.py", "--check")
    required = {"TOSA_CONVERT_REQUIRE_TYPE_CHECKERS": "1"}
    session.run("python", "-m", "pytest", "tests/typing", "-n", "0", env=required)


#: Folders of tests that pass with the package's own dependencies alone.
WITHOUT_MLIR = ("unit/graph", "unit/io", "reference", "rules", "rewrites")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of `python -m pytest`, all but the slow and long ones; `-- ARGS` go to pytest."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(venv_backend="uv|virtualenv")
def lowest(session: nox.Session) -> None:
    """Run the tests with the lowest version of each dependency that pyproject.toml admits; needs uv.

    The extra `test` asks for a newer numpy, so what needs no MLIR runs first without that extra.
    """
    lowest = ("uv", "pip", "install", "--resolution", "lowest-direct")
    session.run(
        *lowest, ".", "pytest>=8.2", "pytest-xdist>=3.7", "hypothesis>=6.100", external=True
    )
    session.run("python", "-m", "pytest", *(f"tests/{folder}" for folder in WITHOUT_MLIR))
    session.run(*lowest, ".[test]", external=True)
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(venv_backend="uv|virtualenv")
def newest(session: nox.Session) -> None:
    """Run the tests with the newest versions, preliminary ones too; these may fail. Needs uv."""
    session.run("uv", "pip", "install", "--prerelease", "allow", ".[test]", external=True)
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that are marked `slow`; `-- ARGS` go to pytest."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", "-m", "slow and not long", *session.posargs)


@nox.session
def long(session: nox.Session) -> None:
    """The tests that are marked `long`; `-- ARGS` go to pytest."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", "-m", "long", *session.posargs)


@nox.session
@nox.parametrize("group", list(FRONTENDS), ids=list(FRONTENDS))
def frontends(session: nox.Session, group: str) -> None:
    """Models of frameworks, each group of packages in an environment of its own, at the tested releases.

    `nox -s "frontends(tflite)"` runs one group; `-- --newest` tries the newest release of each package.
    """
    row = FRONTENDS[group]
    extras = ",".join(row.extras)
    arguments = list(session.posargs)
    constraints = ["-c", f"third_party/frontends/{group}.txt"]
    if "--newest" in arguments:
        arguments.remove("--newest")
        constraints = ["--upgrade"]
    needed = (
        "pytest>=8",
        "pytest-xdist>=3.7",
        "hypothesis>=6.100",
        "flatbuffers>=24",
        *row.packages,
    )
    if group in WITHOUT_TOSA_TOOLS:
        session.install(f".[{extras}]", *needed, *constraints)
        session.install("--no-deps", "tosa-tools", *constraints)
    else:
        session.install(f".[{extras},refmodel]", *needed, *constraints)
    session.run("python", "-m", "pip", "list")
    files = map(str, row.files())
    session.run("python", "-m", "pytest", "-m", "not long", "-n", "auto", *files, *arguments)


@nox.session
def docs(session: nox.Session) -> None:
    """The tests of the documents; `-- --regenerate` rewrites the generated parts instead."""
    session.install(".[test]")
    if "--regenerate" in session.posargs:
        session.run("python", "tests/docs/regenerate.py")
    else:
        session.run("python", "-m", "pytest", "-m", "not long", "tests/docs", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """Build the site of the documentation into build/site, strictly, and check the result."""
    session.install(".[docs]")
    session.run("python", "-m", "mkdocs", "build", env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "manual/check_site.py", "build/site")


@nox.session
def man(session: nox.Session) -> None:
    """Write the man pages into build/man."""
    session.install(".")
    session.run("python", "-m", "manual.man_pages", "build/man")


@nox.session
def package(session: nox.Session) -> None:
    """Build a release twice into dist, and check the archives; `-- PYTHONS` to try the wheel with."""
    session.install("build>=1.2", "twine>=6")
    for old in (ROOT / "dist").glob("tosa_convert-*"):
        old.unlink()
    session.run("python", "release/build_archives.py", "dist")
    session.run("python", "-m", "twine", "check", "--strict", *map(str, (ROOT / "dist").glob("*")))
    session.run("python", "release/check_archives.py", "dist", *session.posargs)


@nox.session
def suite(session: nox.Session) -> None:
    """Make the whole official suite (about 10,850 files) and compare each with tosa-opt.

    `-- DIR` for a folder that has one, or where it should be made. Half an hour on two processors.
    """
    session.install(".[test]")
    folder = session.posargs[0] if session.posargs else str(SUITE)
    session.run("python", "tests/oracle/official_suite.py", folder, "--subset", "full")
    session.run("python", "tests/oracle/compare_suite.py", folder, *session.posargs[1:])


@nox.session
def mlir(session: nox.Session) -> None:
    """Compare bytecode and text of the official suite, ours and that of tosa-opt, torch-mlir and IREE.

    Then compare what we refuse of changed modules with what tosa-opt and torch-mlir refuse.

    `-- DIR` for a folder that has the suite, or where it should be made. Each comparison continues where
    it was stopped. An hour on two processors.
    """
    session.install(".[test]")
    folder = Path(session.posargs[0]) if session.posargs else SUITE
    session.run("python", "tests/oracle/official_suite.py", str(folder), "--subset", "full")
    for name in ("bytecode", "written_bytecode", "text", "read_text"):
        state = folder.with_name(f"{folder.name}.{name}")
        script = f"tests/oracle/compare_{name}.py"
        session.run("python", script, str(folder), "--state", str(state))
    state = folder.with_name(f"{folder.name}.refusals")
    session.run("python", "tests/oracle/compare_refusals.py", "--state", str(state))


@nox.session(name="compare-reference")
def compare_reference(session: nox.Session) -> None:
    """Compare the definitions in numpy with the reference model, on random programs and edge values.

    `-- ARGS` such as `--programs 1000`, and `--publish` for the table of docs/computation.md.
    It continues where it was stopped. A quarter of an hour on two idle processors.
    """
    session.install(".[test]")
    session.run("python", "tests/oracle/official_suite.py", str(SUITE), "--subset", "full")
    state = str(SUITE.with_name(f"{SUITE.name}.reference"))
    script = "tests/oracle/compare_reference.py"
    session.run("python", script, str(SUITE), "--state", state, *session.posargs)


@nox.session
def specification(session: nox.Session) -> None:
    """Compare the tables with a `tosa.xml` of the specification, at `-- PATH`, which is never copied."""
    session.install(".")
    session.run("python", "schema/compare_specification.py", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Judge official tests: 8,000 negative ones, 10,850 positive ones, changed ones; random programs.

    `-- DIRS` are further folders of valid programs, such as converted models. They are made first, in
    half an hour on two processors; judging them takes fifteen minutes.
    """
    session.install(".[test]")
    session.run("python", "tests/oracle/compare_negatives.py", str(NEGATIVES))
    session.run("python", "tests/oracle/official_suite.py", str(SUITE), "--subset", "full")
    valid = (str(SUITE), *session.posargs)
    session.run("python", "tests/oracle/compare_positives.py", *valid, "--graphs", "1000")
    session.run("python", "tests/oracle/compare_mutants.py", str(SUITE))


def make_consumers(session: nox.Session) -> list[str]:
    """Return the folders of environments with programs that read files; each is made first."""
    folders = []
    for group in CONSUMER_GROUPS:
        folder = ROOT / ".nox" / f"consumers-{group}"
        session.run("python", "-m", "venv", str(folder))
        packages = f"third_party/consumers/{group}.txt"
        session.run(str(folder / "bin" / "pip"), "install", "-r", packages, external=True)
        folders.append(str(folder))
    return folders


@nox.session
def consumers(session: nox.Session) -> None:
    """Hand the networks of the zoo to Vela, the ML SDK model converter, Model Explorer and IREE.

    Each file is written by us and by tosa-opt, and what the programs do with both has to be equal.
    `-- NAMES` for some networks, `-- --tflite FOLDER` for TFLite models, too. It continues where it was
    stopped. Two hours on two processors.
    """
    session.install(".[torch,tflite,refmodel,iree]", "-c", "third_party/frontends/torch.txt")
    words = []
    for folder in make_consumers(session):
        words += ["--environment", folder]
    session.run("python", "zoo/compare_consumers.py", str(CONSUMERS), *words, *session.posargs)


@nox.session
def scoreboard(session: nox.Session) -> None:
    """Run the official suite on every consumer that `--against` knows by name, and write pages.

    `-- ARGS` such as `DIR` for further programs, `--max-cases 130`, or `--publish` for the tables of
    docs/scoreboard.md. It continues where it was stopped. A night on two processors; with `-- --sample`
    it has a sample of the suite, and takes an hour.
    """
    session.install(".[test,iree,mlir]")
    programs = [f"{folder}/bin" for folder in make_consumers(session)]
    given = [word for word in session.posargs if word != "--sample"]
    is_sample = given != list(session.posargs)
    suite, subset = (SUITE.with_name("sample"), "sample") if is_sample else (SUITE, "full")
    session.run("python", "tests/oracle/official_suite.py", str(suite), "--subset", subset)
    words = (str(SCOREBOARD), str(suite), *given)
    path = os.pathsep.join([*(session.bin_paths or ()), *programs, os.environ["PATH"]])
    session.run("python", "tests/oracle/scoreboard.py", *words, env={"PATH": path})


@nox.session
def networks(session: nox.Session) -> None:
    """Convert and check published architectures by their names, with random weights and in small sizes.

    `-- NAMES` for some, or the beginnings of names. It continues where it was stopped, and writes
    zoo/published.json. Two hours on two processors.
    """
    session.install(".[timm,torchvision,hf,refmodel]", "-c", "third_party/frontends/networks.txt")
    session.run("python", "zoo/published.py", str(NETWORKS), *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """A minute of mutated inputs, then ten seconds of each atheris harness if atheris is installed.

    `-- ARGS` go to the campaign instead, such as `--inputs 1000000 --seconds 9000 --state DIR`.
    """
    session.install(".[test,fuzz]")
    session.run("python", "fuzz/campaign.py", *(session.posargs or ["--seconds", "60"]))
    if not session.posargs:
        session.run("python", "fuzz/atheris_fuzz.py", "all")


@nox.session
def faults(session: nox.Session) -> None:
    """Judge every faulty backend of the bench: what `check` finds, and what `bisect` names.

    Without arguments, a campaign then looks for bugs that are planted for it.

    `-- ARGS` such as `--state DIR`, `--engine reference-model --every 20` or `--verify`. It continues
    where it was stopped. A quarter of an hour on two processors.
    """
    session.install(".[test]")
    script = "tests/golden/fault_bench/run.py"
    words = session.posargs or ["--state", str(FAULTS)]
    session.run("python", script, *words, env={"PYTHONPATH": "tests"})
    if not session.posargs:
        session.run("python", "tests/golden/test_planted_bugs.py", env={"PYTHONPATH": "tests"})


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure which lines and branches the tests run, in their child processes too.

    All tests run but the long ones; `-- ARGS` go to pytest instead, such as `tests/rules`. Fails below
    the aims of docs/how-we-test.md. An hour on two processors.
    """
    session.install(".[test,check]", "coverage>=7.10")  # with TFLite's kernels
    folder = ROOT / ".nox" / "coverage"
    folder.mkdir(parents=True, exist_ok=True)
    env = {"COVERAGE_FILE": str(folder / "data")}
    session.run("coverage", "erase", env=env)
    # A test that measures time or imports may fail where coverage.py runs; `nox -s tests` judges.
    words = ("coverage", "run", "-m", "pytest", *(session.posargs or ("-m", "not long")))
    session.run(*words, env=env, success_codes=[0, 1])
    session.run("coverage", "combine", "--quiet", env=env)
    for part, aim in COVERED.items():
        session.run("coverage", "report", f"--include={part}", f"--fail-under={aim}", env=env)


@nox.session
def mutants(session: nox.Session) -> None:
    """Change the code in one place, many times, and count how many changes a test notices.

    `-- ARGS` such as `rules --sample 200 --seed 2`. It continues where it was stopped; Linux.
    """
    session.install(".[test]", "coverage>=7.10")
    script = "tests/measure/mutants.py"
    words = ("--state", str(MUTANTS), *session.posargs)
    session.run("python", script, *words, env={"PYTHONPATH": "tests"})


@nox.session
def bench(session: nox.Session) -> None:
    """Measure against the budgets and against tosa-opt; `-- --quick` to see that it works."""
    session.install(".[test]")
    session.run("python", "benchmarks/run.py", *session.posargs)
