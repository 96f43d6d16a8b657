"""The public function `reduce`: shrink a model while a command keeps failing on it.

`shrinking` says how. The answers are stored in the work folder, so an interrupted reduction can be
continued.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert import api
from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import save_npz
from tosa_convert.golden.arrays.scratch import file_errors, npy_pieces
from tosa_convert.golden.arrays.slots import slots
from tosa_convert.golden.backends.fingerprint import digest, of_command, of_software
from tosa_convert.golden.reduction.shrinking import Cut, Shrinker, size
from tosa_convert.golden.running.commands import command_words, run_command, with_paths
from tosa_convert.golden.running.intermediates import iterate_tensors
from tosa_convert.golden.running.programs import AS_IT_IS, as_graph, input_arrays, input_slots
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, RunOptions
from tosa_convert.graph.model import Graph, counted
from tosa_convert.io.files import PathLike, read_json, replace_file
from tosa_convert.io.options import ReadOptions
from tosa_convert.process.child import Ended


@dataclass(frozen=True, slots=True)
class Reduction:
    """The smallest failing sub-graph found.

    tried: how often the command ran. reused: answers that the work folder had already.
    """

    graph: Graph
    cut: Cut
    operators: int
    tried: int
    reused: int


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


ANY_FAILURE: Final = Failure()
#: The file of the work folder that has the answers.
STATE: Final = "state.json"


def reduce(
    program: Any,
    command: str,
    work: PathLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    expect: Failure = ANY_FAILURE,
    progress: Callable[[str], None] = lambda text: None,
    read: ReadOptions = AS_IT_IS,
    resume: bool = False,
) -> Reduction:
    """Find a small part of a program on which a command still fails.

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
        expect: what counts as a failure, if not every one.
        progress: called with a line of text after each candidate.
        read: how to read a file or module.
        resume: keep the answers of a complete reduction, too, which by default begins anew.

    Returns:
        The reduced graph, the number of its operators, and how often the command ran.

    Raises:
        TosaConvertError: `option-conflict` if the command does not fail on the whole program, if it
            also fails on a program without operators, or if the folder belongs to another
            reduction; `missing-backend` if there is no such command; `file-error`; and as
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
    graph = as_graph(program, read)
    has_inputs = inputs is not None or random is not None
    arrays = input_arrays(graph, inputs, random) if has_inputs else None
    options = RunOptions(timeout=timeout, engine=engine)
    key = digest([timeout, engine, of_command(command), of_software()])
    reducer = _Reducer(graph, command, Path(work), arrays, options, expect, progress, key)
    reducer.continue_from(reducer.stored_state(), resume=resume)
    return reducer.run()


class _Reducer:
    """One reduction; see `reduce`."""

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
    ) -> None:
        self.graph, self.folder, self.options, self.expect = graph, folder, options, expect
        self.inputs, self.progress = inputs, progress
        self.words = command_words(command)
        if not self.words:
            raise fail("missing-backend", f"--command {command}", "there is no such command")
        self.tried = self.reused = 0
        self.said = ""
        self._golden: dict[str, Array] | None = None
        self.key = key
        identity = hashlib.sha256(b"".join(api.encode(graph)))
        identity.update(f"{command} {expect}".encode())
        for key, array in sorted((inputs or {}).items()):
            identity.update(key.encode() + array.tobytes())
        self.identity = identity.hexdigest()
        with file_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.answers: dict[str, bool] = {}
        self.shrinker = Shrinker(graph, self.fails)

    def stored_state(self) -> Mapping[str, Any]:
        """Read what an earlier run of the same reduction left in the folder; {} if there was none.

        Raises TosaConvertError("option-conflict") for the folder of another one, and ("file-error").
        """
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
        answers = state.get("answers")
        if not isinstance(answers, dict) or not all(type(a) is bool for a in answers.values()):
            raise fail("file-error", str(path), f"not {expected}: its answers are damaged")
        return state

    def continue_from(self, state: Mapping[str, Any], *, resume: bool) -> None:
        """Take the answers of an earlier run, as far as all that decided them is the same."""
        if state.get("key") == self.key and (resume or state.get("complete") is not True):
            self.answers = dict(state["answers"])

    def _save_state(self, *, complete: bool) -> None:
        state = {
            "identity": self.identity,
            "key": self.key,
            "complete": complete,
            "answers": self.answers,
        }
        replace_file(self.folder / STATE, [json.dumps(state).encode()])

    def run(self) -> Reduction:
        """Reduce until nothing more can be removed."""
        block = self.graph.main
        best: Cut = (tuple(dict.fromkeys(block.outputs)), ())
        if not self.shrinker.fails(best):
            raise fail(
                "option-conflict",
                " ".join(self.words),
                "it does not fail as expected on the whole model; there is nothing to reduce",
            )
        self._refuse_unrelated_failure()
        best = self.shrinker.shrink(best)
        part = self.shrinker.extract(best)
        replace_file(self.folder / "reduced.tosa", api.encode(api.stamp(part)))
        if self.inputs is not None:
            save_npz(self.folder / "inputs.npz", self.arrays_for(part))
        self._save_state(complete=True)
        return Reduction(part, best, size(part), self.tried, self.reused)

    def _refuse_unrelated_failure(self) -> None:
        """Refuse a command that fails whatever the program is, such as one with a spelling mistake.

        The trivial program returns an input of the graph.
        """
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
        """Return whether the command fails on a candidate; it runs once for each."""
        key = hashlib.sha256(json.dumps(cut).encode()).hexdigest()
        if key in self.answers:
            self.reused += 1
            return self.answers[key]
        part = self.shrinker.extract(cut)
        has_failed = self._run_command(part)
        self.tried += 1
        self.answers[key] = has_failed
        self._save_state(complete=False)
        if has_failed:
            replace_file(self.folder / "reduced.tosa", api.encode(api.stamp(part)))
        self.progress(f"{counted(size(part), 'operator')}: {'fails' if has_failed else 'passes'}")
        return has_failed

    def _run_command(self, part: Graph) -> bool:
        """Run the command on a candidate; whether it fails."""
        model, data = self.folder / "candidate.tosa", self.folder / "candidate.npz"
        replace_file(model, api.encode(api.stamp(part)))
        if self.inputs is not None:
            save_npz(data, self.arrays_for(part))
        paths = {"{model}": str(model.resolve()), "{inputs}": str(data.resolve())}
        words = with_paths(self.words, paths, appended=["{model}"])
        # A command that does not end in time is killed, and so fails, too.
        ended = run_command(words, timeout=self.options.timeout, name=words[0], with_stdout=True)
        self.said = " / ".join(ended.stderr.strip().splitlines()[-3:])
        return self.expect.matches(ended)

    def arrays_for(self, part: Graph) -> dict[str, Array]:
        """Arrays for a candidate's inputs."""
        assert self.inputs is not None
        arrays: dict[str, Array] = {}
        for slot in input_slots(part):
            source = self.inputs if slot.key in self.inputs else self.golden()
            arrays[slot.key] = source[slot.key]
        return arrays

    def golden(self) -> dict[str, Array]:
        """Return every computed tensor, as a mapped file in the work folder; computed once."""
        if self._golden is None:
            folder = self.folder / "golden"
            with file_errors(folder):
                folder.mkdir(exist_ok=True)
            golden: dict[str, Array] = {}
            for tensor in iterate_tensors(self.graph, self.inputs or {}, options=self.options):
                for slot in slots(self.graph.main, tensor.name):
                    path = folder / f"{len(golden)}.npy"
                    golden[slot.key] = _mapped(path, tensor.arrays[slot.key])
            self._golden = golden
        return self._golden


def _mapped(path: Path, array: Array) -> Array:
    """Write an array to a file and return the mapped file."""
    contiguous = np.ascontiguousarray(array)
    stored = contiguous.view(np.uint8).reshape(-1) if array.size else contiguous
    replace_file(path, npy_pieces(stored))
    mapped: Array = np.load(path, mmap_mode="r" if array.size else None)
    return mapped.view(array.dtype).reshape(array.shape)
