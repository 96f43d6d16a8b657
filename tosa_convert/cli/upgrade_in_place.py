"""The hook `tosa-upgrade`, which rewrites old flatbuffers and touches no current one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tosa_convert.cli.messages import note, say
from tosa_convert.errors import TosaConvertError, fail, printable


def main(paths: Sequence[str]) -> int:
    """Rewrite each file of an older release."""
    codes = [0]
    for path in paths:
        try:
            if upgrade_in_place(path):
                note(f"{printable(path)}: brought to the form of TOSA 1.0")
                codes.append(1)
        except TosaConvertError as error:
            text = str(error)
            say(text if text.startswith(path) else f"{path}: {text}", err=True)
            codes.append(error.exit_code)
    return max(codes)


def upgrade_in_place(path: str) -> bool:
    """Rewrite a flatbuffer of an older release. Return whether it was one."""
    from tosa_convert.api import save
    from tosa_convert.formats.read import open_input, read_as_stored
    from tosa_convert.io.options import ReadOptions

    # A copy: the constants of a mapped file would be in the file that is replaced.
    options = ReadOptions(copy=True)
    opened = open_input(path, options)
    graph, stored, is_old = read_as_stored(opened, options)
    if not is_old:
        return False
    if opened.format != "tosa" or any(row.form != "embedded" for row in stored):
        message = (
            "an older TOSA, and not a flatbuffer with its weights inside: not rewritten in place"
        )
        raise fail("option-conflict", path, message, f"tosa-flatbuffer upgrade {path} -o NEW")
    save(graph, path, to="tosa")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
