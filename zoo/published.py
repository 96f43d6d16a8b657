"""Converts and checks the published architectures of published.txt, by their names and in small sizes.

python zoo/published.py STATE [NAME ...] [--python [PREFIX:=]PROGRAM] [--timeout SECONDS] [--again]

Each has random weights. The answers go to STATE/answers.jsonl, so that the same command continues where
it was stopped; with `--again` what is named is run again. What is known is written to
zoo/published.json, from which docs/networks.md is made; rows that were not run stay. PROGRAM has the
libraries, or those of the names that begin so: `--python keras:=other/bin/python`. NAME may be the
beginning of one: `timm:`.

What stands before a library quantises its network first: `pt2e:` by ExecuTorch's Arm backend, which
lowers it, too; `qdq:` by onnxruntime, after torch exported it to ONNX; `int8:` by TFLite's converter.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.lower_model import WANTED, FrontendOptions, lowered
from tosa_convert.frontends.process.run import server_of
from tosa_convert.frontends.quantisation_parameters import scales_of
from tosa_convert.frontends.table import on_route, recognize
from tosa_convert.golden.backends.process import KeptWorkers, Machine
from tosa_convert.golden.models.compare_model import compare_model
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions

FOLDER: Final = Path(__file__).parent
NAMES: Final = FOLDER / "published.txt"
RESULTS: Final = FOLDER / "published.json"
#: What quantises a network -> the route that lowers it, and the script and ending of a file of it.
_QUANTISED: Final = {
    "pt2e": ("executorch", "", ""),
    "qdq": ("", "write_onnx.py", "onnx"),
    "int8": ("", "write_tflite.py", "tflite"),
}
#: Library -> the sizes of the inputs of a small network.
_SHAPES: Final = {
    "timm": {"x": "1x3x32x32"},
    "torchvision": {"x": "1x3x32x32"},
    "keras": {"image": "1x32x32x3"},
    "hf": {},
}
#: What a small configuration of transformers has, as far as the type of model knows it.
_SMALL: Final = {
    **dict.fromkeys(("hidden_size", "d_model", "encoder_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(
        ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"), 4
    ),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim"), 64),
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 10,
    "head_dim": 8,
    "num_key_value_heads": 2,
}
#: Operators of products, which show whether a quantised network computes with integers.
_PRODUCTS: Final = ("CONV2D", "DEPTHWISE_CONV2D", "CONV3D", "MATMUL", "TRANSPOSE_CONV2D")
#: What a message has if torch itself did not export the model, or its library did not make it.
_EXPORT: Final = (
    "torch.export cannot",
    "(export.py:",
    "does not make it",
    "TFLite has no such operator",
)
#: The folder of what is installed, in a path, and a line of torch's log.
_PLACE: Final = re.compile(r"\S*/site-packages/|^ *[EW]\d{4} .*\n?", re.MULTILINE)

Row = dict[str, Any]


def rows() -> dict[str, dict[str, str]]:
    """Return name of each network -> what differs from the sizes of its family."""
    lines = NAMES.read_text(encoding="utf-8").splitlines()
    found = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: dict(word.split("=", 1) for word in words) for name, *words in found}


def small_model(
    name: str, differs: dict[str, str], state: Path, machine: Machine
) -> tuple[str, dict[str, str]]:
    """Return the name under which a small network is converted, and the sizes of its inputs.

    Of transformers it is a folder with a small configuration of the type, of a quantised network a
    factory or a file.
    """
    library, _, called = name.partition(":")
    if library in _QUANTISED:
        return _quantised(library, called, state, machine), {}
    if library != "hf":
        return name, differs or _SHAPES[library]
    kind, _, task = called.partition(":")
    folder = state / "configurations" / kind
    folder.mkdir(parents=True, exist_ok=True)
    own = {key: json.loads(value) for key, value in differs.items()}
    small = {key: value for key, value in {**_SMALL, **own}.items() if value is not None}
    text = json.dumps({"model_type": kind, **small})
    (folder / "config.json").write_text(text, encoding="utf-8")
    return f"hf:{folder}:{task}", {}


def _quantised(form: str, name: str, state: Path, machine: Machine) -> str:
    """Describe a quantised network: a factory, or a file that is written if it is not there yet."""
    route, script, ending = _QUANTISED[form]
    if not script:
        return f"{FOLDER / 'quantised.py'}:{name.replace(':', '_')}_{route}"
    path = state / form / f"{name.replace(':', '_')}.{ending}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        words = [machine.python, str(FOLDER / script), str(state), name, "--forms", form]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=machine.timeout, check=False
        )
        if not path.exists():
            said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
            raise fail("frontend-failed", name, f"{script} does not make it: {said[-1]}")
    return str(path)


def _inputs_beside(path: Path) -> dict[str, Any]:
    """Return the inputs that a script wrote with a file, if there are any."""
    beside = path.with_suffix(".inputs.npz")
    return dict(np.load(beside)) if beside.exists() else {}


def run(name: str, differs: dict[str, str], state: Path, machine: Machine) -> Row:
    """Convert and check one network; every failure is an answer."""
    row: Row = {"name": name, "sizes": differs, "commit": commit()}
    start = time.monotonic()
    source = name
    try:
        source, shapes = small_model(name, differs, state, machine)
        _convert(row, source, shapes, machine)
    except (TosaConvertError, subprocess.TimeoutExpired) as error:
        # Without what depends on where this runs.
        row["reason"] = _PLACE.sub("", str(error).replace(source, name))
        row.setdefault("exported", not any(text in str(error) for text in _EXPORT))
    return row | {"seconds": round(time.monotonic() - start, 1)}


def _convert(row: Row, source: str, shapes: dict[str, str], machine: Machine) -> None:
    """Convert and check one network, and note in its row how far it came."""
    via, *_ = _QUANTISED.get(row["name"].partition(":")[0], ("",))
    sizes = {key: tuple(map(int, text.split("x"))) for key, text in shapes.items()}
    model = recognize(source)
    assert model is not None
    frontend = on_route(model.frontend, via).name
    options = FrontendOptions(
        python=machine.python,
        timeout=machine.timeout,
        read=ReadOptions(input_shapes=sizes, narrow=() if via else ("i64", "f64"), copy=True),
        options=WANTED,
        via=via,
        random_weights=row["name"].partition(":")[0] in _SHAPES,
        server=_server(frontend, machine.python),
    )
    with log.warnings_off(), lowered(model, options) as found:
        main = found.graph.main
        row |= {"exported": True, "lowered": True, "operators": len(main.operators)}
        products = [one for one in main.operators if one.spec.name in _PRODUCTS]
        floats = [one for one in products if main.tensors[one.outputs[0]].dtype.is_float]
        row |= {"products": len(products), "integers": len(products) - len(floats)}
        tc.dumps(found.graph, "tosa")
        row["valid"] = True
        result = compare_model(
            found.graph,
            frontend,
            found.model,
            given={},
            examples={**found.examples, **_inputs_beside(Path(source))},
            seed=None,
            machine=machine,
            scales={
                **scales_of(found.interface.inputs, main.inputs),
                **scales_of(found.interface.outputs, main.outputs),
            },
        )
        row |= {"agrees": result.ok, "reason": result.what_is_wrong}
        row["error"] = max((one.needed_atol for one in result.tensors), default=0.0)


@functools.cache
def commit() -> str:
    """Return the commit of the code; "" outside a checkout."""
    words = ["git", "-C", str(FOLDER), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip()


_servers: dict[str, Any] = {}


def _server(name: str, python: str) -> Any:
    if name not in _servers:
        _servers[name] = server_of(name, python)
    return _servers[name]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("state", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    given.state.mkdir(parents=True, exist_ok=True)
    answers = given.state / "answers.jsonl"
    known: dict[str, Row] = {}
    if answers.exists():
        for line in answers.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            known[row["name"]] = row
    kept = KeptWorkers()
    pythons = dict(text.rpartition("=")[::2] for text in given.python)
    asked = rows()
    named = [name for start in given.names for name in asked if name.startswith(start)]
    for name in dict.fromkeys(named if given.names else asked):
        differs = asked[name]
        if name in known and known[name]["sizes"] == differs and not given.again:
            continue
        starts = [start for start in pythons if name.startswith(start)]
        python = pythons[max(starts, key=len)] if starts else sys.executable
        machine = Machine(python, given.timeout, kept)
        row = known[name] = run(name, differs, given.state.resolve(), machine)
        with answers.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        stage = next(
            (one for one in ("agrees", "valid", "lowered", "exported") if row.get(one)), "none"
        )
        print(f"{row['seconds']:6} s {name}: {stage} {row.get('reason', '')[:200]!r}", flush=True)
    before = {row["name"]: row for row in json.loads(RESULTS.read_text(encoding="utf-8"))}
    known = before | known
    found = [known[name] for name in asked if name in known]
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
