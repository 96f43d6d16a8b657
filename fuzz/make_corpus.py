"""Make the corpus from the programs that other tests use: `python fuzz/make_corpus.py`.

One small flatbuffer for each case; a campaign converts them to the other formats. Run it again after
an operator, attribute or field is added.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from torch_mlir import ir  # noqa: E402
from unit.building import branching, counting, example  # noqa: E402
from unit.graph.test_verify import zoo  # noqa: E402

import tosa_convert as tc  # noqa: E402
from tosa_convert import api  # noqa: E402

CORPUS = Path(__file__).parent / "corpus"
#: Flatbuffers of more bytes are left out: they only make mutations slow.
LARGEST = 4096


def main() -> None:
    """Replace the corpus."""
    shutil.rmtree(CORPUS, ignore_errors=True)
    CORPUS.mkdir()
    graphs = {}
    for path in sorted((ROOT / "tests/oracle/cases").glob("*.mlir")):
        for index, text in enumerate(path.read_text().split("// -----")):
            try:
                with ir.Context():
                    module = ir.Module.parse(text)
                    graphs[f"{path.stem}_{index}"] = tc.load(
                        tc.export_tosa_func_to_flatbuffer(module, validate=False)
                    )
            except (ir.MLIRError, tc.TosaConvertError):
                continue  # a case that tests a refusal
    for make in (example, branching, counting, zoo):
        graphs[make.__name__] = make()
    for name, graph in graphs.items():
        data = b"".join(api.encode(graph))
        if len(data) > LARGEST:
            continue
        (CORPUS / f"{name}.tosa").write_bytes(data)


if __name__ == "__main__":
    main()
