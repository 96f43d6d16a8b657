"""The passes under the name that 0.1.0 gave their module; they are in `tosa_convert.bindings.passes`."""

from tosa_convert.bindings.passes import add_tosa_serialize, add_tosa_serialize_json

__all__ = ["add_tosa_serialize", "add_tosa_serialize_json"]
