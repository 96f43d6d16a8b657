"""Locations as entries of a bytecode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tosa_convert.formats.mlir.bytecode import format as code

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.encode import Encoder


class LocationEntries:
    """Adds locations to a bytecode and returns their encoded numbers.

    has_ranges: MLIR since 2025 has ranges in files; for others a range is its first place.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.attributes = encoder.attributes
        self.numbers = encoder.numbers
        self.has_ranges = True
        #: The parts of each fused location.
        self.fused: dict[bytes, tuple[bytes, ...]] = {}

    def string(self, text: str | bytes) -> bytes:
        """Encode a string attribute."""
        return self.encoder.string_attribute(text)

    def make(self, tag: int, *parts: bytes) -> bytes:
        """Encode the location with this tag and these parts."""
        return self.attributes(self.numbers[tag] + b"".join(parts))

    def place(self, name: str | bytes, places: list[int]) -> bytes:
        """Encode a place in a file, a line and a column, or a range, to a column or to another line."""
        if not self.has_ranges:
            places = places[:2]
        numbers, file = self.numbers, self.string(name)
        parts = [numbers[place] for place in places]
        if len(places) == 2:
            return self.make(code.FILE_LOCATION, file, *parts)
        return self.make(code.FILE_RANGE_LOCATION, file, numbers[len(places)], *parts)

    def name(self, name: str | bytes, child: bytes) -> bytes:
        """Encode a location with a name."""
        return self.make(code.NAME_LOCATION, self.string(name), child)

    def fuse(self, locations: list[bytes]) -> bytes:
        """Several locations as one, without duplicates, without nested fusion and without unknown ones.

        MLIR simplifies fused locations like this, except when it reads them from bytecode.
        """
        flat = dict.fromkeys(
            part for location in locations for part in self.fused.get(location, (location,))
        )
        flat.pop(self.encoder.unknown, None)
        parts = tuple(flat)
        if len(parts) < 2:
            return parts[0] if parts else self.encoder.unknown
        fused = self.make(code.FUSED_LOCATION, self.numbers[len(parts)], *parts)
        self.fused[fused] = parts
        return fused
