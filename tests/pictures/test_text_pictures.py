"""SVG, DOT, node data, the page's text, and what the command refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from pictures.programs import HOSTILE, hostile, network
from unit.building import branching, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.views.pictures.html_page import asset, escaped_json

needs_layout = pytest.mark.usefixtures("_layout")
SVG = "{http://www.w3.org/2000/svg}"


@needs_layout
@pytest.mark.parametrize("made", [example(), branching(), network(50, scoped=True), hostile()])
def test_svg_is_xml_with_a_box_for_each_node(made: tc.Graph) -> None:
    root = ElementTree.fromstring(tc.report(made, to="svg"))
    titles = [text.text for text in root.iter(f"{SVG}text")]
    assert len(titles) > 3
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "g", "rect", "path", "text", "title")
    }


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("made", [example(), branching(), network(50, scoped=True), hostile()])
def test_graphviz_reads_the_dot_file(made: tc.Graph) -> None:
    text = tc.report(made, to="dot")
    done = subprocess.run(["dot", "-Tplain"], input=text.encode(), capture_output=True, check=True)
    assert done.stderr == b""


@pytest.mark.parametrize("title", HOSTILE)
def test_dot_escapes_quotes_and_backslashes(title: str) -> None:
    text = tc.report(hostile(), to="dot", title=title)
    # Without escapes and quoted strings, only the syntax of DOT is left.
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    assert "evil" not in bare
    assert set(re.findall(r"[^\s\w]", bare)) <= set('{}[]=",;->')
    assert bare.count("{") == bare.count("}")


def test_node_data_has_the_multiply_accumulates_by_tensor() -> None:
    values = [tensor("a", "FP32", (1, 2, 3)), tensor("b", "FP32", (1, 3, 4))]
    zero = tensor("z", "FP32", (1,), bytes(4))
    values += [tensor("y", "FP32", (1, 2, 4)), zero]
    made = graph("a b", "y", values, [op("CONST", "", "z"), op("MATMUL", "a b z z", "y")])
    data = json.loads(tc.report(made, to="model-explorer"))
    assert data["results"] == {"y": {"value": 24}}
    assert [stop["stop"] for stop in data["gradient"]] == [0, 1]


def test_node_data_has_the_errors_by_tensor() -> None:
    result = tc.golden.compare({"y": np.array([1], np.float32)}, {"y": np.array([2], np.float32)})
    data = json.loads(tc.report(example(), to="model-explorer", errors=result))
    assert data["results"]["y"]["value"] > 1
    assert all(row["bgColor"].startswith("#") for row in data["thresholds"])
    assert "graphsData" not in data


def test_json_in_the_page_cannot_end_its_element() -> None:
    text = escaped_json({"names": list(HOSTILE)})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"names": list(HOSTILE)}


@needs_layout
def test_the_page_is_the_same_each_time_and_names_no_path(tmp_path: Path) -> None:
    first = tc.report(network(100, scoped=True), title="t")
    assert first == tc.report(network(100, scoped=True), title="t")
    tc.save(example(), tmp_path / "m.tosa")
    target = tmp_path / "r.html"
    assert run(tosa_flatbuffer, ["report", str(tmp_path / "m.tosa"), "-o", str(target)]) == 0
    assert str(tmp_path) not in target.read_text(encoding="utf-8")


def test_scripts_never_set_markup() -> None:
    scripts = "".join(asset(f"{path.stem}.js") for path in _scripts())
    for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("):
        assert way not in scripts


def _scripts() -> list[Path]:
    import tosa_convert.views.pictures

    (folder,) = tosa_convert.views.pictures.__path__
    return sorted((Path(folder) / "viewer").glob("*.js"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model-explorer", "--scopes", "names"], "scopes does not apply to model-explorer"),
        (["--dot", "-o", "m.tosa"], "the output is the input file"),
        (["--dot", "--func", "f"], "--func"),
        (["--dot", "--errors", "absent.json"], "absent.json"),
    ],
)
def test_what_does_not_apply_is_refused(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")
    assert run(tosa_flatbuffer, ["report", "m.tosa", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_output_the_picture_is_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tc.save(example(), tmp_path / "m.tosa")
    assert run(tosa_flatbuffer, ["report", str(tmp_path / "m.tosa"), "--dot"]) == 0
    assert capsys.readouterr().out == tc.report(example(), to="dot", title="m.tosa")


def test_unknown_choices_and_unsound_graphs_are_refused() -> None:
    with pytest.raises(tc.TosaConvertError, match="pdf"):
        tc.report(example(), to="pdf")  # type: ignore[call-overload]
    broken = example()
    broken.main.outputs.append("missing")
    with pytest.raises(tc.TosaConvertError, match="never defined"):
        tc.report(broken, to="dot")


@pytest.mark.parametrize(
    ("name", "start"), [("a.svg", "<svg"), ("a.DOT", "digraph"), ("a.gv", "digraph"), ("a", "<!")]
)
def test_the_extension_of_the_file_says_the_form(
    name: str, start: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if start != "digraph":
        request.getfixturevalue("_layout")
    tc.report(example(), tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    tc.report(example(), tmp_path / name, to="dot")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith("digraph")
