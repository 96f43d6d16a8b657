# Tests of programs with LLVM's lit: `pip install lit filecheck`, and `lit examples/lit`.
#
# %tosa-convert and %tosa-flatbuffer are the commands of this package, %filecheck compares their output
# with the CHECK lines of a test. Copy this file to a folder of your own tests.

import os
import sys

import lit.formats

config.name = "tosa-convert"  # lit defines `config`
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
# What tests write stays out of the sources.
config.test_exec_root = os.path.join(lit_config.params.get("work", os.getcwd()), "lit-output")
python = os.environ.get("TOSA_PYTHON", sys.executable)
config.substitutions += [
    ("%tosa-convert", f'"{python}" -m tosa_convert convert'),
    ("%tosa-flatbuffer", f'"{python}" -m tosa_convert'),
    ("%filecheck", f'"{python}" -m filecheck'),
]
