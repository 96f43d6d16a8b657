"""The verbs that a script calls a thousand times: what they take, for click and without it."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final


class Described(NamedTuple):
    """A verb: its work, a module of this package and its function, and what click shows of it.

    arguments: name -> its METAVAR, which ends with "..." if there may be any number.
    options: flags of the table of options. more: flag -> what its help adds to the meaning.
    changes: flag -> what else is different. is_program: it is installed as a program, too.
    """

    work: str
    help: str
    arguments: Mapping[str, str]
    options: str
    more: Mapping[str, str]
    changes: Mapping[str, Mapping[str, Any]] = {}
    epilog: str = ""
    is_program: bool = False


_FOR_OUTPUT: Final = "The output gets a form that it opens; the rest is refused."

DESCRIBED: Final = {
    "convert": Described(
        "convert_work:convert",
        "Convert programs between formats, and framework models to TOSA.\n\n"
        "The formats are MLIR text, MLIR bytecode, TOSA flatbuffers and their JSON. IN may also be a "
        "model of TFLite, Keras, TensorFlow, torch, ONNX or JAX, or the name of one: timm:NAME, "
        "torchvision:NAME, hf:ORG/MODEL, keras:NAME.",
        {"paths": "[IN]..."},
        "--output --to --export-to-flatbuffer --import-from-flatbuffer --split-input-file --names "
        "--tosa-version --bytecode-version --function-op --generic --no-locations --elide --full-paths "
        "--input-names --output-names --for --via --exact --partial --check --random-weights --input "
        "--random --engine --timeout --limit --python --jobs --accept-changed-weights --weights "
        "--no-validate --verify --pass-captured --narrow --input-shape --custom --func",
        {
            "--output": "For several inputs it is a folder.",
            "--to": "Otherwise MLIR becomes tosa, and everything else mlir.",
            "--for": _FOR_OUTPUT,
            "--input": "They are for --check.",
            "--random": "They are for --check; 0 by default.",
            "--engine": "It is for --check.",
            "--timeout": "Half an hour by default.",
        },
        {"--timeout": {"default": None}},
        "The input's format is recognised by its content, the output's by its extension or --to. "
        "Without IN, or with -, the input is standard input; without -o the output is standard output. "
        "Options that do not apply to the input or the output are refused. `tosa-flatbuffer --help` "
        "lists the other verbs.",
        is_program=True,
    ),
    "repack": Described(
        "convert_work:repack",
        "Move a program's weights: into the file, after it, or into .npy files.",
        {"source": "IN"},
        "--output --for --no-validate --verify --accept-changed-weights --weights --to",
        {"--output": "A .tosa or .json file.", "--for": _FOR_OUTPUT},
        {"--output": {"required": True}},
    ),
    "validate": Described(
        "validate_files:validate_programs",
        "Report everything that TOSA forbids in programs.",
        {"files": "[FILES]..."},
        "--profile --level --spec-version --for --least --json --sarif --output --limit --jobs --func",
        {
            "--profile": "What needs another one is a finding.",
            "--level": "A limit that an operator exceeds is a finding.",
            "--for": "What it does not read is a finding. May be repeated.",
            "--output": "By default the report goes there.",
        },
        {"--for": {"name": "readers", "multiple": True}},
        "Files of any format are recognised by their content; of a directory all .tosa, .json, .mlir, "
        ".mlirbc and .bc files below it are read. Without FILES, or with -, the input is standard "
        "input. Exit code: 0 if TOSA allows all programs, 1 if there are findings, and another one for "
        "a file that cannot be read.",
    ),
    "show": Described(
        "show_files:show",
        "Show what is in a file: operators, constants, work, findings.",
        {"files": "[FILES]..."},
        "--operators --tensors --constants --grep --hex --all-bytes --json --limit --jobs --func",
        {"--json": "docs/show.md describes it."},
        epilog="Files of any format are recognised by their content. Of several files, and of the "
        ".tosa, .json, .mlir, .mlirbc and .bc files below a directory, a table shows a row each. "
        "Without FILES, or with -, the input is standard input. A TFLite or ONNX model, a .pt2 file, a "
        "GraphDef, and text of StableHLO or the torch dialect are shown without their framework. Exit "
        "code: 0 if all files can be read, whatever the findings; another one for a file that cannot be "
        "read. `tosa-flatbuffer data` shows arrays.",
    ),
    "diff": Described(
        "diff_files:diff",
        "Report how program RIGHT differs from LEFT, whatever values are called.",
        {"left": "", "right": ""},
        "--compare-names --compare-locations --ignore-order --context --all --stat --json --color "
        "--func",
        {"--all": "Otherwise types that differ because those of operands do are left out."},
        {"--json": {"excludes": ("--all", "--color")}},
        "Files of any formats can be compared with one another; - is standard input. Exit code: 0 if "
        "the programs are equal, 1 if they differ, and another one if a file cannot be read.",
    ),
}


def work_of(verb: Described) -> Callable[..., Any]:
    module, _, name = verb.work.partition(":")
    work: Callable[..., Any] = getattr(import_module(f"tosa_convert.cli.{module}"), name)
    return work
