"""Every format that names files keeps to its folder: no other place, no link out of it, no pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from golden.official_cases import X, unary, write_case
from unit.building import example

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.backends.runners import open_folder
from tosa_convert.qualify.suite.official_case import case_inputs, read_case

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")

#: Writes a file into a folder that names another one; returns the named file and what reads it.
Format = Callable[[Path, Callable[[str], str]], tuple[Path, Callable[[], object]]]


def official_program(
    folder: Path, named: Callable[[str], str]
) -> tuple[Path, Callable[[], object]]:
    return official(folder, "tosa_file", named("test.tosa"), "test.tosa")


def official_input(folder: Path, named: Callable[[str], str]) -> tuple[Path, Callable[[], object]]:
    return official(folder, "ifm_file", [named("x.npy")], "x.npy")


def official(
    folder: Path, field: str, value: object, name: str
) -> tuple[Path, Callable[[], object]]:
    write_case(folder, unary("ABS"), X)
    path = folder / "desc.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    return folder / name, lambda: case_inputs(read_case(folder))


def results(folder: Path, named: Callable[[str], str]) -> tuple[Path, Callable[[], object]]:
    folder.mkdir()
    np.save(folder / "y.npy", X["x"])
    rows = [{"name": "y", "file": named("y.npy")}]
    (folder / "manifest.json").write_text(json.dumps({"tensors": rows}))
    return folder / "y.npy", lambda: dict(open_folder(folder))


def weights(folder: Path, named: Callable[[str], str]) -> tuple[Path, Callable[[], object]]:
    tc.save(example(), folder.parent / "m.json", weights="npy")
    (folder.parent / "m.weights").rename(folder)
    (folder.parent / "m.weights").symlink_to(folder)
    content = json.loads((folder / "manifest.json").read_text())
    own = content["constants"][0]["file"]
    content["constants"][0]["file"] = named(own)
    (folder / "manifest.json").write_text(json.dumps(content))
    return folder / own, lambda: tc.load(folder.parent / "m.json")


def onnx_data(folder: Path, named: Callable[[str], str]) -> tuple[Path, Callable[[], object]]:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    from tosa_convert.frontends.onnx.weights import load

    folder.mkdir()
    tensor = onnx.numpy_helper.from_array(np.zeros(8, np.float32), "w")
    graph = onnx.helper.make_graph([], "g", [], [], [tensor])
    onnx.save(
        onnx.helper.make_model(graph),
        folder / "m.onnx",
        save_as_external_data=True,
        location="w.data",
        size_threshold=0,
    )
    model = onnx.load(folder / "m.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = named("w.data")
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "w.data", lambda: load(folder / "m.onnx")


FORMATS: list[Format] = [official_program, official_input, results, weights, onnx_data]


@pytest.mark.parametrize("write", FORMATS)
def test_a_file_in_the_folder_is_read(write: Format, tmp_path: Path) -> None:
    _, read = write(tmp_path / "folder", lambda name: name)
    read()


@pytest.mark.parametrize("form", ["absolute", "relative", "link", "folder link"])
@pytest.mark.parametrize("write", FORMATS)
def test_a_name_that_leads_out_of_the_folder_is_refused(
    write: Format, form: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    forms = {
        "absolute": lambda name: str(outside / name),
        "relative": lambda name: f"../outside/{name}",
        "link": lambda name: name,
        "folder link": lambda name: f"below/{name}",
    }
    path, read = write(tmp_path / "folder", forms[form])
    path.rename(outside / path.name)
    if form == "link":
        path.symlink_to(outside / path.name)
    (tmp_path / "folder/below").symlink_to(outside)
    with pytest.raises(TosaConvertError) as caught:
        read()
    assert {finding.code for finding in caught.value.findings} == {"unsafe-path"}


@pytest.mark.parametrize("write", FORMATS)
def test_a_pipe_in_place_of_a_file_is_refused_without_a_wait(write: Format, tmp_path: Path) -> None:
    path, read = write(tmp_path / "folder", lambda name: name)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(TosaConvertError, match=r"pipe|not a regular file"):
        read()
