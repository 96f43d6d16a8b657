"""Each kind of input has a test on a file that a tool of somebody else made."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tosa_convert.frontends.table import FRONTENDS
from tosa_convert.io.formats import FORMATS, WEIGHT_FILES

TESTS = Path(__file__).resolve().parents[1]
_NAMED = "frontends/test_named_models.py"
#: Kind of input -> the tool that makes its file, the file of the test that reads it, and the test.
INPUTS = {
    "mlir": (
        "MLIR's bindings",
        "oracle/test_read_text.py",
        "test_a_sample_of_the_official_tests_is_read_in_every_style",
    ),
    "mlirbc": (
        "MLIR of 2022 to 2025",
        "unit/eras/test_old_programs.py",
        "test_an_old_program_is_read_from_bytecode",
    ),
    "tosa": (
        "flatbuffers",
        "unit/formats/flatbuffer/test_flatbuffer_outside.py",
        "test_every_field_of_a_file_by_the_flatbuffers_package_is_read",
    ),
    "json": (
        "flatc",
        "oracle/test_json_against_flatc.py",
        "test_every_operator_that_flatc_prints_is_read",
    ),
    "vgf": (
        "model-converter",
        "unit/formats/vgf/test_vgf.py",
        "test_the_program_comes_back",
    ),
    "spv": (
        "vgf_dump",
        "unit/formats/vgf/test_vgf.py",
        "test_a_module_alone_is_the_graph_of_its_vgf_file",
    ),
    "pte": (
        "ExecuTorch",
        "unit/formats/pte/test_pte.py",
        "test_the_program_computes_what_torch_does",
    ),
    "npy": (
        "numpy",
        "unit/formats/weights/test_weights_files.py",
        "test_the_extreme_values_of_a_type_are_read",
    ),
    "safetensors": (
        "safetensors",
        "unit/formats/weights/test_weights_archives.py",
        "test_safetensors_of_another_program_are_read",
    ),
    "irpa": (
        "IREE",
        "unit/formats/weights/test_weights_archives.py",
        "test_archives_of_iree_are_read",
    ),
    "gguf": (
        "gguf",
        "unit/formats/weights/test_weights_archives.py",
        "test_gguf_is_read",
    ),
    "tflite": (
        "TensorFlow",
        "frontends/test_keras_zoo.py",
        "test_a_network_is_equal",
    ),
    "keras": (
        "Keras",
        "frontends/test_keras.py",
        "test_a_model_a_file_and_a_saved_model_give_one_program",
    ),
    "tensorflow": (
        "TensorFlow",
        "frontends/test_keras_graph_defs.py",
        "test_a_graph_def_computes_what_tensorflow_computed",
    ),
    "jax": (
        "JAX",
        "frontends/test_jax_zoo.py",
        "test_a_network_agrees",
    ),
    "stablehlo": (
        "JAX 0.4.20 to 0.6.2",
        "frontends/test_jax_stablehlo_releases.py",
        "test_a_module_of_an_older_release_computes_what_that_release_computed",
    ),
    "torch-mlir": (
        "torch-mlir",
        "frontends/test_torch_module.py",
        "test_a_module_computes_what_its_framework_computed",
    ),
    "torch": (
        "torch",
        "frontends/test_zoo.py",
        "test_a_network_is_equal_to_torch",
    ),
    "onnx": (
        "torch.onnx",
        "frontends/test_zoo.py",
        "test_a_network_is_equal_to_onnxruntime",
    ),
    "timm": (
        "timm",
        _NAMED,
        "test_a_model_converts_and_agrees",
    ),
    "torchvision": (
        "torchvision",
        _NAMED,
        "test_a_model_takes_the_sizes_that_are_asked_for",
    ),
    "hf": (
        "transformers",
        _NAMED,
        "test_a_folder_is_found_where_the_user_works",
    ),
}


def test_every_kind_of_input_is_listed() -> None:
    routes = {name for name, row in FRONTENDS.items() if row.route_of}
    assert INPUTS.keys() == {*FORMATS, *WEIGHT_FILES, *FRONTENDS} - routes


@pytest.mark.parametrize("kind", INPUTS)
def test_a_listed_test_exists(kind: str) -> None:
    tool, file, name = INPUTS[kind]
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert tool
    assert name in names
