"""Read operators, inputs and outputs of a `.pt2` file, of the JSON in it, without torch."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from typing import Any, Final

from tosa_convert.frontends.header import Header, ModelValue

#: Most bytes of the JSON, and how many more for each byte of the file; weights are not in it.
_FREE_BYTES: Final = 4 << 20
_BYTES_PER_BYTE: Final = 32
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: A size that is not fixed, with what torch knows of it.
_SYMBOL: Final = re.compile(r"Symbol\('(\w+)'[^()]*\)")
#: Operators of which no form lowers: random numbers, and results whose sizes the data decides.
NEVER_LOWERED: Final = re.compile(
    r"aten\.(?:rand|randn|randint|randperm|rand_like|randn_like|randint_like|bernoulli|multinomial|normal"
    r"|poisson|exponential|uniform|nonzero|_?unique\w*|masked_select|bincount)\."
)
_MEMBER: Final = "/models/model.json"
_TYPES: Final = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8e4m3fn",
    30: "float8e5m2",
}


class _View(io.RawIOBase):
    """The bytes of a view as a file, without a copy of them all."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = max(0, offset + (0, self.at, len(self.data))[whence])
        return self.at

    def readinto(self, buffer: Any) -> int:
        part = self.data[self.at : self.at + len(buffer)]
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)


def read_pt2(data: memoryview) -> Header:
    try:
        with zipfile.ZipFile(_View(data)) as archive:
            name = next((row for row in archive.namelist() if row.endswith(_MEMBER)), "")
            if not name:
                raise ValueError(f"it has no member {_MEMBER[1:]}, as torch 2.8 and later write it")
            member = archive.getinfo(name)
            if member.compress_type not in _COMPRESSIONS:
                raise ValueError(f"its member {name} is compressed in an unknown way")
            most = _FREE_BYTES + _BYTES_PER_BYTE * len(data)
            if member.file_size > most:
                raise ValueError(f"its graph has {member.file_size} bytes, expected at most {most}")
            text = archive.read(member)  # no more than this size
        module = json.loads(text)["graph_module"]
        graph, signature = module["graph"], module["signature"]
        tensors = graph["tensor_values"]
        inputs = [
            _value(row["user_input"]["arg"], tensors)
            for row in signature["input_specs"]
            if "user_input" in row
        ]
        outputs = [
            _value(row["user_output"]["arg"], tensors)
            for row in signature["output_specs"]
            if "user_output" in row
        ]
        # As torch prints them: `aten.conv2d.default`.
        operators = [str(row["target"]).removeprefix("torch.ops.") for row in graph["nodes"]]
    except (LookupError, TypeError, AttributeError, RecursionError, NotImplementedError) as error:
        raise ValueError(f"its graph is damaged: {type(error).__name__} {error}"[:200]) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise ValueError(f"its archive is damaged: {error}"[:200]) from None
    return Header(operators, inputs, outputs, filter(NEVER_LOWERED.match, operators))


def _value(argument: dict[str, Any], tensors: dict[str, Any]) -> ModelValue:
    ((kind, content),) = argument.items()
    if kind != "as_tensor":
        name = content.get("name", "") if isinstance(content, dict) else ""
        return ModelValue(str(name), "not a tensor", None)
    tensor = tensors[content["name"]]
    dtype = _TYPES.get(tensor["dtype"], f"type {tensor['dtype']}")
    return ModelValue(str(content["name"]), dtype, tuple(map(_size, tensor["sizes"])))


def _size(size: dict[str, Any]) -> int | str:
    if "as_int" in size:
        return int(size["as_int"])
    return _SYMBOL.sub(r"\1", str(size["as_expr"]["expr_str"])[:200])
