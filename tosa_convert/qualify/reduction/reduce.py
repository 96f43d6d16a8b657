"""Shrink a model while a command keeps failing on it: `reduce`.

First operators are left out (`cutting`), then what is left is simplified (`simplifying`). The answers
are stored in the work folder, so an interrupted reduction can be continued.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tosa_convert import api
from tosa_convert.errors import fail
from tosa_convert.golden.arrays import (
    Array,
    StoredArrays,
    file_errors,
    save_npz,
)
from tosa_convert.golden.backends.process import digest, of_command, of_software
from tosa_convert.golden.running.programs import AS_IT_IS, as_graph, input_arrays, input_slots
from tosa_convert.golden.running.reference_model_process import (
    command_words,
    run_command,
    with_paths,
)
from tosa_convert.golden.running.run import iterate_tensors
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, RunOptions
from tosa_convert.graph.model import Graph, counted
from tosa_convert.graph.shown import Shown
from tosa_convert.io.files import PathLike, read_json, replace_file
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.process.child import Ended
from tosa_convert.qualify.reduction.cutting import (
    Cut,
    Shrinker,
    size,
)
from tosa_convert.qualify.reduction.simplifying import Candidate, Simplifier, weight

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True)
class Reduction(Shown):
    """The smallest failing program found.

    cut: the part of the program that it was made from. complete: whether nothing more can be left out,
    or the command ran as often, or as long, as it may.
    tried: how often the command ran. reused: answers that the work folder had already.
    """

    graph: Graph
    cut: Cut
    operators: int
    tried: int
    reused: int
    complete: bool = True

    def __str__(self) -> str:
        how = "nothing more can be left out" if self.complete else "not complete"
        head = f"{counted(self.operators, 'operator')}, in {counted(self.tried, 'run')}; {how}"
        return f"{head}\n{self.graph}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values; `save` writes the program."""
        return {name: getattr(self, name) for name in ("operators", "tried", "reused", "complete")}


@dataclass(frozen=True, slots=True)
class Failure:
    """What counts as a failure of the command.

    exit_code: this exit code only; None for any but 0, and for no end within the time limit.
    text: something that the command must have printed to stdout or stderr.
    """

    exit_code: int | None = None
    text: str = ""

    def matches(self, ended: Ended) -> bool:
        """Return whether a command failed in this way."""
        if self.exit_code is not None:
            return ended.code == self.exit_code and self.text in ended.stderr
        return ended.code != 0 and self.text in ended.stderr

    def like(self, exit_code: int | None) -> Failure:
        """Return the same failure with an exit code that was seen, unless one is meant already."""
        return self if self.exit_code is not None else Failure(exit_code, self.text)


ANY_FAILURE: Final = Failure()
#: How often the command runs unless the caller says otherwise.
RUNS: Final = 1000
STATE: Final = "state.json"


@takes_keywords(ReadKeywords)
def reduce(
    program: Any,
    command: str,
    work: PathLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    runs: int = RUNS,
    seconds: float = math.inf,
    expect: Failure = ANY_FAILURE,
    progress: Callable[[str], None] = lambda text: None,
    read: ReadOptions = AS_IT_IS,
    resume: bool = False,
    **options: Unpack[ReadKeywords],
) -> Reduction:
    """Find a small program, made from a given one, on which a command still fails.

    Operators are left out until each one is needed. Then sizes become 1 or half as large, attributes
    become values without effect, such as a pad of 0, and constants and inputs become zeros or one value.
    A simplified program must fail with the exit code of the part that it was made from.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        command: a command line; `{model}` and `{inputs}` are replaced by the candidate's files, and
            the model is appended if neither is there. Any exit code but 0, and no end within
            `timeout`, mean that the candidate fails.
        work: a folder for candidates and answers; the result is its `reduced.tosa`, with
            `inputs.npz` if there are inputs. The same call again continues an interrupted one, unless a
            file that the command names, or a release of the software, has changed.
        inputs: an array for each input; values that become inputs get the arrays that the reference
            model computes from them. Without `inputs` and `random` the command gets the model only.
        random: a seed, 0 or more, for inputs that are not given.
        timeout: seconds for one run of the command or of the reference model.
        engine: what computes the reference; see `RunOptions`.
        runs: how often the command may run in this call.
        seconds: for how long it is started in this call.
        expect: what counts as a failure, if not every one.
        progress: called with a line of text after each candidate.
        read: how to read a file or module, as a value.
        resume: keep the answers of a complete reduction, too, which by default begins anew.

    Returns:
        The reduced graph, the number of its operators, and how often the command ran. An interrupted
        call leaves the smallest program so far in the folder, with its inputs.

    Raises:
        TosaConvertError: `option-conflict` for less than one run, if the command does not fail on the
            whole program, if it also fails on a program without operators, or if the folder belongs to
            another reduction; `missing-backend` if there is no such command; `file-error`; and as
            `golden.run`.

    Example:
        >>> import sys, tempfile
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> command, expect = f"{sys.executable} -c 'raise SystemExit(1)'", golden.Failure(1)
        >>> with tempfile.TemporaryDirectory() as work:
        ...     golden.reduce(graph, command, work, expect=expect).operators
        1
    """
    if runs < 1:
        raise fail("option-conflict", "runs", f"found {runs}, expected at least 1")
    graph = as_graph(program, read, options)
    has_inputs = inputs is not None or random is not None
    arrays = input_arrays(graph, inputs, random) if has_inputs else None
    run_options = RunOptions(timeout=timeout, engine=engine)
    key = digest([timeout, engine, of_command(command), of_software()])
    reducer = _Reducer(graph, command, Path(work), arrays, run_options, expect, progress, key, runs)
    reducer.end = time.monotonic() + seconds
    reducer.continue_from(reducer.stored_state(), resume=resume)
    return reducer.run()


class _Reducer:
    """Run one reduction; see `reduce`."""

    def __init__(
        self,
        graph: Graph,
        command: str,
        folder: Path,
        inputs: dict[str, Array] | None,
        options: RunOptions,
        expect: Failure,
        progress: Callable[[str], None],
        key: str,
        runs: int,
    ) -> None:
        self.graph, self.folder, self.options, self.expect = graph, folder, options, expect
        self.inputs, self.progress = inputs, progress
        self.words = command_words(command)
        if not self.words:
            raise fail("missing-backend", f"--command {command}", "there is no such command")
        self.tried = self.reused = 0
        self.runs, self.end, self.is_complete = runs, math.inf, True
        self.said = ""
        self.code: int | None = None
        self.key = key
        identity = hashlib.sha256(b"".join(api.encode(graph)))
        identity.update(f"{command} {expect}".encode())
        for key, array in sorted((inputs or {}).items()):
            identity.update(key.encode() + array.tobytes())
        self.identity = identity.hexdigest()
        with file_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.answers: dict[str, bool] = {}
        self.codes: dict[str, int] = {}
        self.earlier: set[str] = set()
        self.shrinker = Shrinker(graph, self.fails, sys.maxsize)

    def stored_state(self) -> Mapping[str, Any]:
        """Read what an earlier run of the same reduction left in the folder; {} if there was none."""
        path = self.folder / STATE
        if not path.exists():
            return {}
        expected = "the state of a reduction"
        state = read_json(path, expected)
        if not isinstance(state, dict) or state.get("identity") != self.identity:
            raise fail(
                "option-conflict",
                str(self.folder),
                "it belongs to another reduction (model, inputs or command differ)",
                "choose another --work folder, or remove this one",
            )
        answers, codes = state.get("answers"), state.get("codes", {})
        if (
            not isinstance(answers, dict)
            or not isinstance(codes, dict)
            or not all(type(a) is bool for a in answers.values())
            or not all(type(code) is int for code in codes.values())
        ):
            raise fail("file-error", str(path), f"not {expected}: its answers are damaged")
        return state

    def continue_from(self, state: Mapping[str, Any], *, resume: bool) -> None:
        """Take the answers of an earlier run, as far as all that decided them is the same."""
        if state.get("key") == self.key and (resume or state.get("complete") is not True):
            self.answers = dict(state["answers"])
            self.codes = dict(state.get("codes", {}))
            self.earlier = set(self.answers)

    def _save_state(self, *, complete: bool) -> None:
        state = {
            "identity": self.identity,
            "key": self.key,
            "complete": complete,
            "answers": self.answers,
            "codes": self.codes,
        }
        replace_file(self.folder / STATE, [json.dumps(state).encode()])

    def run(self) -> Reduction:
        best: Cut = (tuple(dict.fromkeys(self.graph.main.outputs)), ())
        if not self.shrinker.fails(best):
            raise fail(
                "option-conflict",
                " ".join(self.words),
                "it does not fail as expected on the whole model; there is nothing to reduce",
                "check also runs on edge inputs: for edges-N, --random N --edges",
            )
        self._refuse_unrelated_failure()
        best = self.shrinker.shrink(best)
        part = self.shrinker.extract(best)
        arrays = None if self.inputs is None else self.arrays_for(part)
        expect = self.expect.like(self.codes.get(_key_of(best)))
        simplifier = Simplifier(
            Candidate(part, arrays), lambda candidate: self.simplified_fails(candidate, expect)
        )
        found = simplifier.simplify()
        self._write("reduced.tosa", "inputs.npz", found)
        self._save_state(complete=self.is_complete)
        operators = size(found.graph)
        return Reduction(
            found.graph, best, operators, self.tried, self.reused, complete=self.is_complete
        )

    def _refuse_unrelated_failure(self) -> None:
        """Refuse a command that fails whatever the program is, such as one with a spelling mistake."""
        block = self.graph.main
        if self.expect != ANY_FAILURE or not block.inputs:
            return
        if self.fails(((block.inputs[0],), ())):
            raise fail(
                "option-conflict",
                " ".join(self.words),
                "it also fails on a program without operators, so its failure may not be the "
                "model's; " + (self.said or "it printed nothing"),
                "say which failure is meant: --expect-text TEXT or --expect-exit N",
            )

    def fails(self, cut: Cut) -> bool:
        def candidate() -> Candidate:
            part = self.shrinker.extract(cut)
            return Candidate(part, None if self.inputs is None else self.arrays_for(part))

        return self._answer(_key_of(cut), candidate, self.expect)

    def simplified_fails(self, candidate: Candidate, expect: Failure) -> bool:
        key = hashlib.sha256(b"".join(api.encode(candidate.graph)))
        for name, array in sorted((candidate.arrays or {}).items()):
            key.update(name.encode() + array.tobytes())
        return self._answer(key.hexdigest(), lambda: candidate, expect)

    def _answer(self, key: str, make: Callable[[], Candidate], expect: Failure) -> bool:
        """Return whether the command fails on a candidate; no, once its runs are over."""
        if key in self.answers:
            self.reused += key in self.earlier
            self.earlier.discard(key)
            return self.answers[key]
        if self.tried >= self.runs or (self.tried and time.monotonic() > self.end):
            self.is_complete = False
            return False
        candidate = make()
        ended = self._run_command(candidate)
        has_failed = expect.matches(ended)
        self.tried += 1
        self.answers[key], self.codes[key] = has_failed, ended.code
        self._save_state(complete=False)
        if has_failed and size(candidate.graph):
            self._write("reduced.tosa", "inputs.npz", candidate)
        said = "fails" if has_failed else "passes"
        count = counted(weight(candidate.graph), "element")
        self.progress(f"{counted(size(candidate.graph), 'operator')}, {count}: {said}")
        return has_failed

    def _write(self, model: str, data: str, candidate: Candidate) -> None:
        replace_file(self.folder / model, api.encode(api.stamp(candidate.graph)))
        if candidate.arrays is not None:
            save_npz(self.folder / data, candidate.arrays)

    def _run_command(self, candidate: Candidate) -> Ended:
        model, data = self.folder / "candidate.tosa", self.folder / "candidate.npz"
        self._write(model.name, data.name, candidate)
        paths = {"{model}": str(model.resolve()), "{inputs}": str(data.resolve())}
        words = with_paths(self.words, paths, appended=["{model}"])
        # A command that does not end in time is killed, and so fails, too.
        ended = run_command(words, timeout=self.options.timeout, name=words[0], with_stdout=True)
        self.said = " / ".join(ended.stderr.strip().splitlines()[-3:])
        return ended

    def arrays_for(self, part: Graph) -> dict[str, Array]:
        assert self.inputs is not None
        keys = [slot.key for slot in input_slots(part)]
        return {key: self.inputs[key] if key in self.inputs else self.golden[key] for key in keys}

    @cached_property
    def golden(self) -> StoredArrays:
        """Return every computed tensor, stored in the work folder."""
        folder = self.folder / "golden"
        with file_errors(folder):
            folder.mkdir(exist_ok=True)
            golden = StoredArrays(folder)
            for tensor in iterate_tensors(self.graph, self.inputs or {}, options=self.options):
                for key, array in tensor.arrays.items():
                    golden.store(key, array)
        return golden


def _key_of(cut: Cut) -> str:
    return hashlib.sha256(json.dumps(cut).encode()).hexdigest()
