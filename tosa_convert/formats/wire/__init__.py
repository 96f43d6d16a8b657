"""The fields of a `.tosa` file, whatever they are encoded as: bytes of a flatbuffer or JSON."""
