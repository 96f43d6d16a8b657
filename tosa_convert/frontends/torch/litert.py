"""Torch programs through TFLite, by litert-torch: integer arithmetic for those that pt2e quantised."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import litert_torch
import torch
from litert_torch.quantize import pt2e_quantizer, quant_config
from torch.utils import _pytree as pytree

from tosa_convert.frontends.lower_model import write_examples
from tosa_convert.frontends.process.request import Interface, NotLowered, Request, Value
from tosa_convert.frontends.tflite.convert import lower_file
from tosa_convert.frontends.torch.export import (
    arrays_of,
    example_tensors,
    load_program,
)
from tosa_convert.frontends.torch.facts import (
    changed_buffers,
    is_quantised,
    remarks_of,
)
from tosa_convert.frontends.torch.signature import input_names, output_names

_NO_STATE = "a call changes it, and litert-torch has no states"
_WITH_STATE = "convert without --via, which makes variables of states"


class _FlatModule(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A program as a module of tensors by position, which returns its tensors in a tuple.

    litert-torch numbers such arguments and results, so that each is found again.
    """

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.training = False  # As the program was exported; it refuses eval().
        self.program = program.module(check_guards=False)
        self.leaves, self.tree = pytree.tree_flatten(program.example_inputs)
        self.places = [n for n, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, keywords = pytree.tree_unflatten(leaves, self.tree)
        results = pytree.tree_leaves(self.program(*arguments, **keywords))
        return tuple(one for one in results if isinstance(one, torch.Tensor))


def lower(request: Request, folder: Path) -> Interface:
    """Lower the program of a `.pt2` file or of a factory; see `Interface`."""
    program = load_program(request)
    remarks = remarks_of(program)
    if states := changed_buffers(program):
        rows = [NotLowered(operator=one, reason=_NO_STATE, hint=_WITH_STATE) for one in states]
        return Interface(not_lowered=rows, remarks=remarks)
    examples = example_tensors(program)
    # Locations have the file's name.
    path = folder / f"{request.member or Path(request.source).stem}.tflite"
    made = litert_torch.convert(
        _FlatModule(program),
        tuple(examples),
        quant_config=_static_quantisation() if is_quantised(program) else None,
        enable_x64=True,
    )
    made.export(str(path))
    interface = lower_file(path, request, folder)
    interface.model = path.name
    interface.remarks = remarks
    inputs = input_names(program)
    _rename(interface.inputs, {f"args_{n}": name for n, name in enumerate(inputs)})
    outputs = output_names(program, inputs)
    _rename(interface.outputs, {f"output_{n}": name for n, name in enumerate(outputs)})
    by_name = dict(zip(inputs, arrays_of(examples), strict=True))
    write_examples(request, folder, [by_name.get(value.name) for value in interface.inputs])
    return interface


def _static_quantisation() -> Any:
    """Quantise and dequantise operators become integer arithmetic. No quantizer runs: pt2e's has run."""
    kind = pt2e_quantizer.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=False)
    quantizer = pt2e_quantizer.PT2EQuantizer().set_global(kind)
    return quant_config.QuantConfig(pt2e_quantizer=quantizer)


def _rename(values: list[Value], names: Mapping[str, str]) -> None:
    """Give the values of a TFLite signature the names that torch has for them."""
    for value in values:
        value.name = names.get(value.name, value.name)
