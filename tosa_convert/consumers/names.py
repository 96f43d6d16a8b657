"""How users name programs that read files: `vela`, `vela:ethos-u85-512`, `iree==3.2`."""

from __future__ import annotations

from typing import Final

from tosa_convert.consumers.readers import READERS, VARIANTS, Consumer, releases
from tosa_convert.errors import fail, refuse_unknown, suggest

#: Accelerator -> its sizes, in multipliers, which Vela's `--accelerator-config` appends. The facts were
#: proved with 256; by experiment Vela reads the same operators for each.
MAC_COUNTS: Final = {
    "ethos-u55": ("32", "64", "128", "256"),
    "ethos-u65": ("256", "512"),
    "ethos-u85": ("128", "256", "512", "1024", "2048"),
}


def every_reader() -> list[str]:
    """Return the names of all programs, and of those of an accelerator."""
    return [
        row.spelling
        for name in READERS
        for row in VARIANTS.get(name, (READERS[name],))
        if not row.entry
    ]


def accelerators(*, sizes: bool = True) -> list[str]:
    """Return the names of programs with an accelerator or an option. sizes: also those with its size."""
    return [
        text
        for rows in VARIANTS.values()
        for row in rows
        if row.variant
        for text in (
            row.spelling,
            *(f"{row.spelling}-{size}" for size in MAC_COUNTS.get(row.variant, ()) if sizes),
        )
    ]


def _of_part(name: str) -> str:
    """Return the hint for an accelerator without its program, such as "u55"; "" for other names."""
    if len(name) < 3:
        return ""
    near = [text for text in accelerators() if text.endswith((f":{name}", f"-{name}"))]
    return f"did you mean {near[0]}?" if near else ""


def other_variants(row: Consumer) -> list[Consumer]:
    """Return the rows of the same release for other accelerators and options."""
    version = row.release.split()[1]
    others = (other for other in VARIANTS.get(row.name, ()) if other.variant != row.variant)
    return [releases(other)[version] for other in others]


def reader_named(text: str, option: str = "for") -> Consumer:
    """Return a program by its name, such as "iree", "iree==3.2" or "vela:ethos-u85".

    Of several releases that begin with the given version, the newest counts; without a version that is
    the newest of all.

    Example:
        >>> row = reader_named("iree==3.2")
        >>> row.release, row.dialect
        ('iree-base-compiler 3.2.0', '2025-02')
    """
    asked, given, version = text.partition("==")
    name, colon, variant = asked.partition(":")
    if name not in READERS:
        message = (
            f"found {name!r}, expected one of {', '.join((*READERS, *accelerators(sizes=False)))}"
        )
        raise fail("option-conflict", option, message, suggest(name, READERS, _of_part(name)))
    row = READERS[name]
    if colon:
        rows = {one.variant: one for one in VARIANTS.get(name, ()) if one.variant}
        chosen, _, size = variant.rpartition("-")
        if chosen in rows and size in MAC_COUNTS.get(chosen, ()):
            variant = chosen  # What is read does not depend on it.
        if not rows:
            message = f"found {text!r}, and {name} has no accelerators or options to choose"
            raise fail("option-conflict", option, message, f"did you mean {name}?")
        if variant not in rows:
            given_names = [text.partition(":")[2] for text in accelerators() if f"{name}:" in text]
            refuse_unknown(f"{option} {name}", variant, given_names)
        row = rows[variant]
    if not given:
        return row
    known = releases(row)
    matching = [key for key in known if f"{key}.".startswith(f"{version.rstrip('.')}.")]
    if not matching or not version:
        refuse_unknown(f"{option} {name}", version, known)
    return known[matching[-1]]
