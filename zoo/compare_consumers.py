"""Hands each network of the zoo to programs that read TOSA, as we write it and as tosa-opt writes it.

python zoo/compare_consumers.py STATE [NAME ...] [--environment FOLDER ...] [--tflite FOLDER]

Vela, Arm's ML SDK model converter, Model Explorer's TOSA adapter and IREE are looked for in this virtual
environment and in those of `--environment`. STATE keeps the lowered programs, and what each program did
with each file, so that the same command continues where it was stopped. Networks come by way of torch;
the models of `zoo/write_tflite.py FOLDER` by way of TFLite, and are named `int8/NAME`. What came out is
written to zoo/consumers.json. Exit code 1 if a file of ours is refused where that of tosa-opt is read,
if what is made of the two differs, or if `tosa-flatbuffer doctor` predicted something else.

It needs the extras `torch`, `tflite`, `refmodel` and `iree`. With `--lower-only` it only lowers, which
another environment may do.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from docs import zoo_tables
from networks import FOLDER, TORCH, networks
from oracle import consumers
from oracle.consumers import Consumer, Outcome
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.cli.doctor import stored_program
from tosa_convert.consumers.doctor import diagnose
from tosa_convert.consumers.readers import READERS
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.read import open_input, read_as_stored
from tosa_convert.io.formats import Format

CONSUMERS: Final = FOLDER / "consumers.json"
OURS: Final = "ours"
THEIRS: Final = "tosa-opt"
#: Program -> its file in an environment, the function that hands it a file, and the script that it runs.
_PROGRAMS: Final[dict[str, tuple[str, Callable[[Path], Consumer], str]]] = {
    "vela": ("vela", consumers.vela, ""),
    "model-converter": ("model-converter", consumers.model_converter, ""),
    "model-explorer": ("python", consumers.model_explorer, consumers.EXPLORER),
    "iree": ("iree-compile", consumers.iree_compile, ""),
}
#: Program -> what `--for` calls it, if that is not its name: Vela compiles for an Ethos-U85 here.
_READERS: Final = {"vela": "vela:ethos-u85"}
#: How the message of a program begins that did not end in time.
_NO_RESULT: Final = "no result in "
#: A message that begins with a place in a file.
_PLACE: Final = re.compile(r"^\S*:\d+(:\d+)?: (error: )?")

Row = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A program that reads files: its name, its release, and the function that runs it."""

    name: str
    release: str
    read: Consumer

    @property
    def formats(self) -> tuple[Format, ...]:
        return READERS[self.name].formats


def installed(environments: Sequence[Path]) -> dict[str, Tool]:
    """Return the programs that are installed in one of some virtual environments, by name."""
    found = {}
    for name, (file, reader, _) in _PROGRAMS.items():
        package = READERS[name].release.split()[0]
        for folder in environments:
            ask = f"from importlib import metadata; print(metadata.version({package!r}))"
            python, program = folder / "bin" / "python", folder / "bin" / file
            done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
            if done.returncode == 0 and program.exists():
                found[name] = Tool(name, f"{package} {done.stdout.strip()}", reader(program))
                break
    return found


@dataclass
class Outcomes:
    """What programs did with files, kept in a file of lines; None: only in memory."""

    path: Path | None = None
    known: dict[str, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path and self.path.exists():
            whole, _, rest = self.path.read_text(encoding="utf-8").rpartition("\n")
            for line in whole.splitlines():
                row = json.loads(line)
                key = row.pop("key")
                self.known[key] = Outcome(**row)
            if rest:  # A run that was stopped did not write the whole line.
                self.path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")

    def _line(self, key: str) -> str:
        return json.dumps({"key": key, **asdict(self.known[key])}) + "\n"

    def of(self, tool: Tool, file: Path) -> Outcome:
        """Return what a program did with a file; it is run if that is not known."""
        _, reader, script = _PROGRAMS[tool.name]
        how = f"{inspect.getsource(reader)}{inspect.getsource(consumers.run)}{script}"
        digests = [hashlib.sha256(data).hexdigest() for data in (how.encode(), file.read_bytes())]
        key = " ".join((tool.release, file.suffix, *digests))
        if key not in self.known:
            outcome = tool.read(file, None)
            assert outcome is not None
            message = _PLACE.sub("", outcome.message).replace(str(file), file.name)
            self.known[key] = Outcome(outcome.reads, message, outcome.result)
            # A busy machine is not the program's answer: the next run asks again.
            if self.path and not message.startswith(_NO_RESULT):
                with self.path.open("a", encoding="utf-8") as stream:
                    stream.write(self._line(key))
        return self.known[key]


def written_by_tosa_opt(module: Path, target: Path, opt: TosaOpt) -> str:
    """Have tosa-opt write a module in the format of the target's extension. Returns why it did not."""
    found: Refused | bytes | None
    if target.suffix == ".tosa":
        found = opt.write(module, target)
    elif target.suffix == ".mlir":
        found = opt.print(module, [])
        if isinstance(found, bytes):
            target.write_bytes(found)
    else:
        found = opt.rewrite(module, target)
    return str(found) if isinstance(found, Refused) else ""


def predicted(file: Path, name: str) -> bool:
    """Return whether `doctor` says that a program reads a file."""
    opened = open_input(str(file))
    graph, storage, is_old = read_as_stored(opened)
    stored = stored_program(str(file), opened, storage, graph, is_old=is_old)
    return diagnose(graph, stored, [_READERS.get(name, name)])[0].reads


def compared(
    graph: tc.Graph, name: str, tools: dict[str, Tool], outcomes: Outcomes, scratch: Path
) -> Row:
    """Return what each program does with the files of one network, ours and those of tosa-opt.

    Returns:
        For each program and format: whether it reads the file of each writer, why not, whether doctor
        foretells it, and whether what it makes of both is equal.
    """
    rows: Row = {}
    with tempfile.TemporaryDirectory(dir=scratch) as kept:
        folder = Path(kept)
        opt = TosaOpt(folder)
        for writer in (OURS, THEIRS):
            (folder / writer).mkdir()
        module = folder / OURS / f"{name}.mlirbc"
        tc.save(graph, module)
        for tool in tools.values():
            for form in tool.formats:
                ours, theirs = (folder / writer / f"{name}.{form}" for writer in (OURS, THEIRS))
                if not ours.exists():
                    tc.save(graph, ours)
                problem = ""
                if not theirs.exists():
                    problem = written_by_tosa_opt(module, theirs, opt)
                row = _one_row(tool, outcomes, ours, None if problem else theirs)
                if problem:
                    row["reason"][THEIRS] = f"tosa-opt does not write it: {problem}"
                if not row["reads"][OURS]:
                    if found := _form_for(tool, module, ours, folder, outcomes):
                        row["for"] = found
                rows.setdefault(tool.name, {})[form] = row
    return rows


def _one_row(tool: Tool, outcomes: Outcomes, ours: Path, theirs: Path | None) -> Row:
    """Return what a program does with our file and with that of tosa-opt.

    It is None if there is no such file.
    """
    row: Row = {"reads": {}, "reason": {}, "doctor": {}}
    results = []
    for writer, file in ((OURS, ours), (THEIRS, theirs)):
        if file is None:
            row["reads"][writer] = False
            continue
        outcome = outcomes.of(tool, file)
        row["reads"][writer] = outcome.reads
        row["doctor"][writer] = predicted(file, tool.name) == outcome.reads
        if outcome.reads:
            results.append(outcome.result)
        else:
            row["reason"][writer] = outcome.message
    if len(results) == 2:
        row["equal"] = results[0] == results[1]
    return row


def _form_for(tool: Tool, module: Path, ours: Path, folder: Path, outcomes: Outcomes) -> Row | None:
    """Return what a program does with the file that `convert --for` writes.

    It is None if it is the same file.
    """
    target = folder / f"for-{tool.name}" / ours.name
    target.parent.mkdir(exist_ok=True)
    words = ["convert", module, "-o", target, "--for", _READERS.get(tool.name, tool.name)]
    command = [sys.executable, "-m", "tosa_convert", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"reads": False, "reason": done.stderr.strip()}
    if target.read_bytes() == ours.read_bytes():
        return None
    outcome = outcomes.of(tool, target)
    return {"reads": outcome.reads} | ({} if outcome.reads else {"reason": outcome.message})


def defects(name: str, rows: Row) -> Iterator[str]:
    """Yield what is wrong with us.

    A file that is refused only from us, another result, a wrong prediction.
    """
    for program, forms in rows.items():
        for form, row in forms.items():
            where = f"{name}: {program}, .{form}"
            reads = row["reads"]
            if reads[THEIRS] and not reads[OURS]:
                yield f"{where}: ours is refused, that of tosa-opt is read: {row['reason'][OURS]}"
            if not row.get("equal", True):
                yield f"{where}: what is made of the two files differs"
            for writer, is_right in row["doctor"].items():
                if not is_right:
                    found = "reads" if reads[writer] else "does not read"
                    why = row["reason"].get(writer, "")
                    yield f"{where}: doctor is wrong: it {found} the file of {writer}: {why}"


def programs(
    chosen: Sequence[str], state: Path, tflite: Path | None
) -> Iterator[tuple[str, str, Path]]:
    """Name, frontend and file of each network; those that STATE does not have are lowered.

    A network that does not lower is reported, and left out: docs/zoo.md says why.
    """
    # By names, so that frameworks are imported only for what has to be lowered.
    for _, name, _ in zoo_tables.networks("torch"):
        if chosen and name not in chosen:
            continue
        kept = state / "programs" / f"{name}.mlirbc"
        if _is_kept(kept, partial(from_torch, name)):
            yield name, "torch", kept
    for model in sorted(tflite.rglob("*.tflite")) if tflite else ():
        name = model.relative_to(tflite or Path()).with_suffix("").as_posix()
        if chosen and name not in chosen:
            continue
        kept = state / "programs" / f"{name}.mlirbc"
        if _is_kept(kept, partial(tc.frontends.from_tflite, model)):
            yield name, "tflite", kept


def from_torch(name: str) -> tc.Graph:
    """Return the program of a network of the zoo."""
    (factory,) = (make for _, found, make in networks(TORCH) if found == name)
    return tc.frontends.from_torch(*factory(), narrow="i64,f64")


def _is_kept(path: Path, lower: Callable[[], tc.Graph]) -> bool:
    """Return whether a program is kept in a file. One that is not yet there is lowered."""
    if path.exists():
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        tc.save(lower(), path)
    except TosaConvertError as error:
        print(f"{path.stem} does not lower: {error.findings[0].message}", file=sys.stderr)
        return False
    return True


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("state", type=Path)
    parser.add_argument("names", nargs="*", help="networks; by default all")
    parser.add_argument("--environment", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--tflite", type=Path, metavar="FOLDER", help="TFLite models, such as int8")
    parser.add_argument("--results", type=Path, default=CONSUMERS)
    parser.add_argument("--lower-only", action="store_true")
    return parser.parse_intermixed_args()


def main() -> int:
    given = _words()
    warnings.simplefilter("ignore")
    if given.lower_only:
        for name, _, _ in programs(given.names, given.state, given.tflite):
            print(name, flush=True)
        return 0
    tools = installed([Path(sys.prefix), *given.environment])
    print("programs:", *(tool.release for tool in tools.values()), sep="\n  ", flush=True)
    if missing := [name for name in _PROGRAMS if name not in tools]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 2
    found: dict[str, Any] = {"networks": {}}
    if given.names and given.results.exists():
        found = json.loads(given.results.read_text(encoding="utf-8"))
    tosa_opt = READERS[THEIRS].release.split()[0]
    found["releases"] = {name: tool.release for name, tool in tools.items()}
    found["releases"][THEIRS] = f"{tosa_opt} {metadata.version(tosa_opt)}"
    outcomes = Outcomes(given.state / "outcomes.jsonl")
    wrong = []
    for name, frontend, path in programs(given.names, given.state, given.tflite):
        rows = compared(tc.load(path), path.stem, tools, outcomes, given.state)
        found["networks"][name] = {"frontend": frontend, "programs": rows}
        given.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        of_network = list(defects(name, rows))
        wrong += of_network
        print(f"{name}: {len(of_network)} defects", *of_network, sep="\n  ", flush=True)
    print(f"{len(found['networks'])} networks, {len(wrong)} defects")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
