"""Files of other programs are shown: every byte of official files, the work of a known network.

The models are beside the checkout, in ../shared/models; they are not part of the project.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from oracle import official_suite

import tosa_convert as tc
from tosa_convert.formats.flatbuffer.annotate import Annotation
from tosa_convert.rules.amounts import Amount

ROOT = Path(__file__).resolve().parent.parent.parent
MOBILENET = ROOT.parent / "shared/models/mobilenet_v2_quantized_1x3x224x224.tflite"
CONVERTER = shutil.which("tosa-converter-for-tflite", path=str(Path(sys.executable).parent))

pytestmark = pytest.mark.oracle


@pytest.mark.slow
@pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing())
def test_every_byte_of_official_files_belongs_to_one_field(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    suite = official_suite.sample(request.config, tmp_path_factory.mktemp("official"))
    files = [case.tosa for case in official_suite.cases(suite)][::4]
    assert len(files) > 100
    for file in files:
        data = file.read_bytes()
        found = Annotation(memoryview(data))
        position = 0
        for row in found.rows():
            assert row.start == position < row.end, file
            position = row.end
            assert "schema" not in row.what, (file, row)
            assert "refers" not in row.what, (file, row)
        assert position == len(data), file
        assert found.errors == [], file
        assert tc.summarize(tc.load(file)).findings == (), file


@pytest.mark.skipif(
    not MOBILENET.is_file(), reason="there is no ../shared/models beside the checkout"
)
@pytest.mark.skipif(CONVERTER is None, reason="tosa-converter-for-tflite is not installed")
def test_mobilenet_v2_has_its_300_million_multiply_accumulates(tmp_path: Path) -> None:
    module = tmp_path / "mobilenet.mlirbc"
    command = [str(CONVERTER), str(MOBILENET), "--bytecode", "-o", str(module)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    found = tc.summarize(tc.load(module))
    # Its paper says 300 M; counted layer by layer, at 224x224 and width 1.0, they are these.
    assert found.work == Amount(300_774_272)
    assert [row.count for row in found.operators[:2]] == [36, 17]
