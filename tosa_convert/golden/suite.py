"""Run a folder of cases: convert each, run the original and what it became, compare the answers.

A case is a folder with an official descriptor (`desc.json`), or with a model and `inputs.npz` as
`bisect` leaves them. Cases run through the interface of `concurrent.futures`: on local processes, or
on a Dask cluster. Each answer is written down as it comes, under the case's name, so that a run that
was interrupted goes on, and a case that ran twice is counted once.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal
from xml.sax.saxutils import quoteattr

from tosa_convert import api
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import write_pieces
from tosa_convert.formats import Format
from tosa_convert.golden import model_process
from tosa_convert.golden.check import check
from tosa_convert.golden.compare import compare
from tosa_convert.golden.npz import load_npz
from tosa_convert.golden.runner import as_graph, input_slots, run, session, write_scratch

Via = Literal["tosa", "mlir", "mlirbc", "json"]
Status = Literal["pass", "fail", "error"]

#: Times a case is given to a pool whose worker died with it.
ATTEMPTS: Final = 3
_MODELS: Final = ("case.tosa", "model.tosa", "test.tosa")


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a case.

    status: "pass", "fail" (another answer than the original's), or "error" (no answer).
    """

    case: str
    status: Status
    message: str = ""
    seconds: float = 0.0
    outputs: int = 0


def find_cases(root: Path) -> list[str]:
    """The cases below a folder, by their path in it, sorted.

    Raises TosaConvertError("unrecognised-input") if there are none.
    """
    found = []
    for folder, _, files in os.walk(root):
        if "desc.json" in files or ("inputs.npz" in files and set(files) & set(_MODELS)):
            found.append(os.path.relpath(folder, root))
    if not found:
        raise fail(
            "unrecognised-input",
            str(root),
            "no case below it: a folder with desc.json, or with case.tosa and inputs.npz",
        )
    return sorted(found)


def run_case(root: str, name: str, via: Via = "tosa", timeout: float = 60.0) -> Answer:
    """One case, from the file to the verdict; expected failures become answers."""
    start = time.monotonic()
    folder = Path(root, name).resolve()
    try:
        if (folder / "desc.json").exists():
            status, message, outputs = _official(folder, via, timeout)
        else:
            status, message, outputs = _ours(folder, via, timeout)
    except TosaConvertError as error:
        status, message, outputs = "error", str(error), 0
    return Answer(name, status, message, round(time.monotonic() - start, 4), outputs)


def convert_there_and_back(data: bytes | memoryview, via: Via) -> bytes:
    """A flatbuffer through another form and back."""
    graph = api.load(data)
    version = f"{graph.version.major}.{graph.version.minor}"
    if via != "tosa":
        kind: Format = via
        text = io.BytesIO()
        write_pieces(text, api.render(graph, kind))
        graph = api.load(text.getvalue())
        graph = api.stamp(graph, version)
    return b"".join(api.encode(graph))


def _official(folder: Path, via: Via, timeout: float) -> tuple[Status, str, int]:
    """The official form: both files with the descriptor's inputs, outputs byte for byte."""
    description = json.loads((folder / "desc.json").read_text())
    source = folder / description["tosa_file"]
    expected_failure = bool(description.get("expected_failure"))
    with session() as work:
        ends: list[model_process.Ended] = []
        for side in ("original", "converted"):
            place = work / side
            (place / "out").mkdir(parents=True)
            for path in folder.glob("*.npy"):
                (place / path.name).symlink_to(path)
            target = place / "model.tosa"
            if side == "original":
                target.symlink_to(source)
            else:
                try:
                    write_scratch(target, [convert_there_and_back(source.read_bytes(), via)])
                except TosaConvertError as error:
                    if ends[0].code > 0:
                        return "pass", f"both refuse it: {error.findings[0]}", 0
                    return "error", f"not converted: {error}", 0
            description["tosa_file"] = "model.tosa"
            (place / "desc.json").write_text(json.dumps(description))
            command = [str(model_process.locate()), "--test_desc=desc.json", "--output_dir=out"]
            ends.append(model_process.run(command, place, timeout))
        codes = [ended.code for ended in ends]
        if codes[0] != codes[1]:
            text = ends[1].stderr.strip().splitlines()
            message = f"exit code {codes[0]} before, {codes[1]} after: {' / '.join(text[:3])}"
            return "fail", message, 0
        if codes[0]:
            if expected_failure or codes[0] > 0:
                return "pass", f"both are refused (exit code {codes[0]})", 0
            return "error", f"the original ends with {codes[0]}", 0
        answers = [
            {path.name: path.read_bytes() for path in (work / side / "out").iterdir()}
            for side in ("original", "converted")
        ]
    if not answers[0]:
        return "fail", "nothing was compared: the original has no outputs", 0
    different = [n for n in sorted(answers[0]) if answers[0][n] != answers[1].get(n)]
    different += sorted(answers[1].keys() - answers[0].keys())
    if different:
        return "fail", "other answers: " + ", ".join(different), len(answers[0])
    return "pass", "", len(answers[0])


def _ours(folder: Path, via: Via, timeout: float) -> tuple[Status, str, int]:
    """Our own form: against `expected.npz` if there is one, else against the original's answer."""
    path = next(folder / name for name in _MODELS if (folder / name).exists())
    inputs = load_npz(folder / "inputs.npz")
    graph = as_graph(convert_there_and_back(path.read_bytes(), via))
    from tosa_convert.golden.array_io import match
    from tosa_convert.golden.backends import Record

    arrays = match(input_slots(graph), inputs)
    if (folder / "expected.npz").exists():
        record = Record("expected.npz", load_npz(folder / "expected.npz"))
        result = check(graph, record, arrays, timeout=timeout)
    else:
        original = run(path, inputs, timeout=timeout).outputs
        result = compare(original, run(graph, arrays, timeout=timeout).outputs)
    message = "" if result.ok else "\n".join(map(str, result.failures)) or str(result)
    return ("pass" if result.ok else "fail"), message, len(result.tensors)


class Journal:
    """Answers by case, in a file of lines; reads what an interrupted run left."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.answers: dict[str, Answer] = {}
        self.path = path
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            kept = json.loads(lines[0]) if lines else {}
            if kept != header:
                raise fail(
                    "option-conflict",
                    str(path),
                    f"it belongs to another run: {kept}, now {header}",
                    "choose another --out, or remove it",
                )
            for line in lines[1:]:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # the last line of a run that was cut off
                self.answers[row["case"]] = Answer(**row)
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        if not path.stat().st_size:
            self.write(header)
        elif not path.read_bytes().endswith(b"\n"):
            self.file.write("\n")

    def write(self, row: dict[str, Any]) -> None:
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def add(self, answer: Answer) -> bool:
        """Keep an answer; False if the case has one already."""
        if answer.case in self.answers:
            return False
        self.answers[answer.case] = answer
        self.write(asdict(answer))
        return True

    def close(self) -> None:
        self.file.close()


def run_all(
    root: Path,
    names: Iterable[str],
    executor: Callable[[], Executor],
    journal: Journal,
    *,
    via: Via = "tosa",
    timeout: float = 60.0,
    window: int = 64,
    progress: Callable[[Answer], None] = lambda answer: None,
) -> None:
    """Run the cases that the journal has no answer for.

    executor: makes an executor; a new one is made if a worker's death breaks it, and what was under
    way is given out again, up to ATTEMPTS times. window: cases given out at a time.
    """
    waiting = [name for name in names if name not in journal.answers][::-1]
    attempts: Counter[str] = Counter()
    while waiting:
        pool = executor()
        running: dict[Future[Answer], str] = {}
        try:
            while waiting or running:
                while waiting and len(running) < window:
                    name = waiting.pop()
                    attempts[name] += 1
                    running[pool.submit(run_case, str(root), name, via, timeout)] = name
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    answer = future.result()
                    del running[future]
                    if journal.add(answer):
                        progress(answer)
        except BrokenProcessPool:
            for name in running.values():
                if attempts[name] < ATTEMPTS:
                    waiting.append(name)
                elif journal.add(Answer(name, "error", "its worker died each time it ran")):
                    progress(journal.answers[name])
            # One at a time, so that the case that kills its worker is the only one that pays.
            window = 1
        finally:
            # Not shutdown's own cancel_futures: Dask's executor has no such argument.
            for future in running:
                future.cancel()
            pool.shutdown(wait=True)


def summary(answers: Iterable[Answer], seconds: float) -> dict[str, Any]:
    """Counts and every case that did not pass, as JSON has it."""
    rows = sorted(answers, key=lambda answer: answer.case)
    counts = Counter(answer.status for answer in rows)
    return {
        "cases": len(rows),
        "passed": counts["pass"],
        "failed": counts["fail"],
        "errors": counts["error"],
        "outputs": sum(answer.outputs for answer in rows),
        "seconds": round(seconds, 2),
        "cases_per_second": round(len(rows) / seconds, 2) if seconds else None,
        "not_passed": [asdict(answer) for answer in rows if answer.status != "pass"],
    }


def junit(answers: Iterable[Answer], seconds: float) -> Iterator[bytes]:
    """The answers as JUnit's XML."""
    rows = sorted(answers, key=lambda answer: answer.case)
    counts = Counter(answer.status for answer in rows)
    head = (
        f'<testsuite name="tosa-flatbuffer suite" tests="{len(rows)}" failures="{counts["fail"]}" '
        f'errors="{counts["error"]}" time="{seconds:.3f}">'
    )
    yield f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>{head}\n'.encode()
    for answer in rows:
        group, _, name = answer.case.rpartition("/")
        tag = {"pass": "", "fail": "failure", "error": "error"}[answer.status]
        inner = f"<{tag} message={quoteattr(_printable(answer.message))}/>" if tag else ""
        yield (
            f"<testcase classname={quoteattr(_printable(group))} name={quoteattr(_printable(name))} "
            f'time="{answer.seconds:.4f}">{inner}</testcase>\n'
        ).encode()
    yield b"</testsuite></testsuites>\n"


def _printable(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(c if c in "\t\n" or ord(c) >= 32 else "?" for c in text)
