"""The public name of `tosa_convert.bindings.passes` in 0.1.0, which stays valid."""

from tosa_convert.bindings.passes import add_tosa_serialize, add_tosa_serialize_json

__all__ = ["add_tosa_serialize", "add_tosa_serialize_json"]
