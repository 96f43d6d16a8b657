"""The folder of a finding: a reduced program on which a consumer fails, and a report for its tracker."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tosa_convert import api
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array, OutputFolder, scratch_folder
from tosa_convert.golden.arrays.npz import load_npz, npz_pieces
from tosa_convert.golden.backends.process import PACKAGES
from tosa_convert.golden.backends.runners import ADAPTERS, ORIGINALS, open_backend
from tosa_convert.golden.running.programs import input_arrays
from tosa_convert.golden.running.reference_model_process import command_words
from tosa_convert.golden.running.run import run
from tosa_convert.golden.running.run_options import TIMEOUT
from tosa_convert.graph.model import Graph
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.io.files import read_json
from tosa_convert.qualify.campaign.observe import (
    Consumer,
    Observation,
    Source,
    Trial,
    computed,
    described,
    observe,
    says_nothing,
    telling_part,
)
from tosa_convert.qualify.reduction.reduce import Failure, reduce
from tosa_convert.reference.evaluate import definition
from tosa_convert.version import __version__

#: How often the consumer runs to reduce a program.
RUNS: Final = 200
FILE: Final = "finding.json"
#: Packages of consumers, whose releases are part of a report.
_PACKAGES: Final = (
    "iree-base-compiler",
    "torch-mlir",
    "tosa-tools",
    "ethos-u-vela",
    "ai-ml-sdk-model-converter",
    "tosa-converter-for-tflite",
    "numpy",
)
_EXPECTED: Final = "a finding that fuzz wrote"


@dataclass(frozen=True, slots=True)
class Finding:
    """A reduced program on which a consumer fails.

    cause: what it has in common with other programs of the same defect: the status, and its operators.
    title, rule: of a report that somebody has looked at: what is wrong, and what TOSA says there.
    """

    cause: str
    trial: Trial
    observation: Observation
    text: str
    title: str = ""
    rule: str = ""

    @property
    def operators(self) -> int:
        """Return how many operators the program has, constants not counted."""
        block = self.trial.graph.main
        return sum(op.spec not in (CONST, CONST_SHAPE) for op in block.operators)


def reduced_finding(
    trial: Trial,
    observation: Observation,
    consumer: Consumer,
    *,
    seconds: float = math.inf,
    progress: Callable[[str], None] = lambda text: None,
) -> Finding | None:
    """Return the smallest program, found in so many seconds, that fails in the same way.

    None if it does not fail again: a failure that comes and goes cannot be reduced.
    """
    status, _, group = observe(trial, consumer)
    if (status, group) != (observation.status, observation.group):
        return None
    command = shlex.join([sys.executable, "-m", "tosa_convert", *check_words(consumer)])
    expected = Failure(1) if status == "wrong" else Failure(text=telling_part(group))
    smallest = trial
    with scratch_folder() as folder:
        try:
            found = reduce(
                trial.graph,
                command,
                folder,
                trial.inputs,
                timeout=10 * consumer.timeout,
                engine=consumer.engine,
                runs=RUNS,
                seconds=seconds,
                expect=expected,
                progress=progress,
            )
            inputs = _inputs_of(found.graph, folder, trial)
            smallest = Trial(found.graph, inputs, trial.made, found.graph, inputs)
        except TosaConvertError as error:
            progress(f"it stays as it is: {error}")
    again, text, other = observe(smallest, consumer)
    if again != status or (status != "wrong" and group != other):
        smallest, text = trial, observation.message
    block = smallest.graph.main
    cause = group
    if status == "wrong" or says_nothing(group):
        described_operators = described(block, block.operators)
        cause = f"{'wrong' if status == 'wrong' else group}: {described_operators}"
    return Finding(cause, smallest, observation, text)


def _inputs_of(graph: Graph, folder: Path, trial: Trial) -> dict[str, Array]:
    """Return the inputs in a folder. A file has arrays of BF16 and FP8 as bytes without a type."""
    path = folder / "inputs.npz"
    return input_arrays(graph, load_npz(path)) if path.exists() else trial.inputs


def check_words(consumer: Consumer, folder: str = "") -> list[str]:
    """Return the words of the command that repeats a finding; `folder` is where its files are."""
    model, inputs = (
        (f"{folder}model.tosa", f"{folder}inputs.npz") if folder else ("{model}", "{inputs}")
    )
    words = ["check", model, "-i", inputs, "--against", consumer.against]
    if consumer.timeout != TIMEOUT:
        words += ["--timeout", f"{consumer.timeout:g}"]
    return words if consumer.engine == "auto" else [*words, "--engine", consumer.engine]


def known_causes(folders: list[Path]) -> set[tuple[str, str]]:
    """Return the packages and causes of findings in folders of earlier campaigns.

    `also` in a finding.json, which a person may add, lists further causes of the same defect. A cause of
    another consumer begins with its name and a colon.
    Raises TosaConvertError("file-error") for a file that is not a finding.
    """
    found: set[tuple[str, str]] = set()
    for folder in folders:
        for path in sorted(folder.glob(f"*/{FILE}")):
            row = read_json(path, _EXPECTED)
            if isinstance(row, dict):
                against, others = str(row.get("against")), row.get("also")
                found.add(known_key(against, str(row.get("cause"))))
                for text in others if isinstance(others, list) else ():
                    consumer, _, cause = str(text).partition(": ")
                    is_of_other = consumer in ADAPTERS or consumer in PACKAGES
                    found.add(known_key(*((consumer, cause) if is_of_other else (against, text))))
    return found


def known_key(against: str, cause: str) -> tuple[str, str]:
    """Return what findings of one defect have in common: the consumers of a package share its code.

    Example:
        >>> known_key("torch-mlir:all", "wrong: NEGATE INT8")
        ('torch-mlir', 'wrong: NEGATE INT8')
    """
    row = ADAPTERS.get(against)
    return against if row is None else row.package, cause


def observe_again(folder: Path) -> Observation:
    """Run the consumer of a finding on its program again.

    Raises TosaConvertError: "file-error"; "missing-backend" if the consumer is not installed.
    """
    row = read_json(folder / FILE, _EXPECTED)
    graph = api.load(folder / "model.tosa")
    inputs = input_arrays(graph, load_npz(folder / "inputs.npz"))
    consumer = Consumer(row["against"], row["timeout"], row["engine"])
    open_backend(consumer.against, graph, inputs)
    status, said, group = observe(Trial(graph, inputs, "", graph, inputs), consumer)
    return Observation(folder.name, status, said, group=group)


def save_finding(finding: Finding, folder: Path, consumer: Consumer) -> None:
    """Write a folder that shows the defect without the rest of the campaign.

    It has `model.tosa`, `model.mlir`, `inputs.npz`, `expected.npz`, `finding.json`, `report.md`, and
    `found.npz` if the result is wrong.
    Raises TosaConvertError("file-error").
    """
    graph, inputs = finding.trial.graph, finding.trial.inputs
    expected = run(graph, inputs, engine=consumer.engine).outputs
    description: dict[str, Any] = {
        "title": finding.title or finding.cause,
        "against": consumer.against,
        "engine": consumer.engine,
        "timeout": consumer.timeout,
        "cause": finding.cause,
        "status": finding.observation.status,
        "operators": finding.operators,
        "made": finding.observation.made,
        "said": finding.text,
        "software": installed(),
    }
    with scratch_folder() as folder_of_run, OutputFolder(folder) as target:
        target.write("model.tosa", api.encode(api.stamp(graph)))
        target.write("model.mlir", _plain(graph))
        target.write("inputs.npz", npz_pieces(inputs))
        target.write("expected.npz", npz_pieces(dict(expected)))
        if finding.observation.status == "wrong":
            found = computed(finding.trial, consumer, folder_of_run)
            target.write("found.npz", npz_pieces(found))
        target.write(FILE, [json.dumps(description, indent=1).encode() + b"\n"])
        target.write("report.md", [report(finding, consumer, folder).encode()])


def save_own_error(row: Observation, source: Source, folder: Path, consumer: Consumer) -> None:
    """Write a folder for an exception of this package: what it said, and the command that repeats it.

    Raises TosaConvertError("file-error").
    """
    description = {
        "title": row.group,
        "against": consumer.against,
        "cause": row.group,
        "status": row.status,
        "made": row.made,
        "said": row.message,
        "software": installed(),
    }
    text = f"""# {row.group}

This is a defect of tosa-convert {__version__}, not of `{consumer.against}`.

To see it again:

```sh
{shlex.join(["tosa-flatbuffer", *_fuzz_words(row, source, consumer)])}
```

The last of these programs ends with:

```
{row.message.rstrip()}
```
"""
    with OutputFolder(folder) as target:
        target.write(FILE, [json.dumps(description, indent=1).encode() + b"\n"])
        target.write("report.md", [text.encode()])


def _fuzz_words(row: Observation, source: Source, consumer: Consumer) -> list[str]:
    """Return the words of the command that tries the programs up to this one again."""
    options: dict[str, list[str]] = {
        "--against": [consumer.against],
        "--engine": [consumer.engine],
        "--timeout": [f"{consumer.timeout:g}"],
        "--seed": [str(source.seed)],
        "--size": [str(source.size)],
        "--only": [",".join(source.kinds or ())],
        "--profile": [source.profile or ""],
        "--types": [",".join(source.types or ())],
        "--level": [source.level],
        "--like": list(source.like),
        "--max-cases": [str(int(row.case) + 1)],
        "--work": ["again"],
    }
    flags = ["--scaled"] * source.scaled
    given = ((name, value) for name, values in options.items() for value in values if value)
    return ["fuzz", *flags, *(word for pair in given for word in pair)]


def report(finding: Finding, consumer: Consumer, folder: Path | None = None) -> str:
    """Return a finding as a text for a tracker, in Markdown. folder: the one that it is for."""
    graph = finding.trial.graph
    program = b"".join(map(bytes, _plain(graph))).decode()
    versions = "\n".join(f"- {name} {version}" for name, version in installed().items())
    there = consumer
    if folder is not None:
        there = replace(consumer, against=_seen_from(folder, consumer.against))
    command = shlex.join(["tosa-flatbuffer", *check_words(there, "./")])
    return f"""# {finding.title or finding.cause}

`{consumer.against}` {_VERBS[finding.observation.status]} this program, which TOSA allows:

```mlir
{program.rstrip()}
```

To see it again, in this folder:

```sh
{command}
```

It prints:

```
{finding.text.rstrip()}
```

{_rule(finding)}## Versions

{versions}
"""


def _seen_from(folder: Path, against: str) -> str:
    """Return a backend as another folder has to name it: its files by their paths from there."""

    def path_of(text: str) -> str:
        if os.path.isabs(text) or not os.path.exists(text):
            return text
        try:
            return Path(os.path.relpath(text, folder)).as_posix()
        except ValueError:  # another drive
            return os.path.abspath(text)

    if os.path.exists(against) or not command_words(against):
        software, colon, path = against.partition(":")
        is_original = colon and software in ORIGINALS
        return f"{software}:{path_of(path)}" if is_original else path_of(against)
    words = command_words(against)
    # A program on PATH has no separator in its name.
    found = [path_of(word) if os.sep in word or place else word for place, word in enumerate(words)]
    return against if found == words else shlex.join(found)


def _plain(graph: Graph) -> Iterable[Any]:
    """Return a program as MLIR text without names and locations, which a report does not need."""
    return api.render(graph, "mlir", names="generate", locations=False)


_VERBS: Final = {
    "wrong": "gives a wrong result for",
    "crashed": "fails on",
    "refused": "refuses",
}


def installed() -> dict[str, str]:
    """Return the releases of this package, and of installed packages that a report may be about."""
    found = {"tosa-convert": __version__}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _rule(finding: Finding) -> str:
    """Return what TOSA says of the operators of a small program."""
    if finding.rule:
        return f"## What TOSA says\n\n{finding.rule}\n\n"
    graph = finding.trial.graph
    kinds = dict.fromkeys(
        op.spec.name for op in graph.main.operators if op.spec not in (CONST, CONST_SHAPE)
    )
    texts = [f"- {kind}: {' '.join(text.split())}" for kind in kinds if (text := definition(kind))]
    return "## What the operators compute\n\n" + "\n".join(texts) + "\n\n" if texts else ""
