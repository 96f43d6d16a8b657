"""The attribute `tosa.target_env` of a module, both directions.

Its text is `#tosa.target_env<specification_version = "1.1.draft", level = "8k", profiles = [pro_int],
extensions = [int16]>`. Older bindings have no version in it.
"""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.graph.model import Target, Version
from tosa_convert.graph.versions import BY_NAME
from tosa_convert.records import NamedTuple

#: The name of the attribute.
TARGET_ENV: Final = "tosa.target_env"

_VERSION: Final = r'specification_version = "?(\d+\.\d+)'
_FORM: Final = (
    r'#tosa\.target_env<(?:specification_version = "?[\w.]{1,20}"?, )?level = "?(\w{1,20})"?, '
    r"profiles = \[([\w, ]{0,1000})\], extensions = \[([\w, ]{0,1000})\]>"
)


class TargetEnv(NamedTuple):
    """What the attribute says. version: None unless it is one that is read.

    target: None if its text has another form.
    """

    version: Version | None
    target: Target | None


def read(text: str) -> TargetEnv:
    """Read the target environment of the attribute's text.

    Example:
        >>> found = read('#tosa.target_env<specification_version = "1.0", level = "8k", '
        ...              'profiles = [pro_int], extensions = [int16, mx_common]>')
        >>> print(found.version, found.target)
        1.0.0 PRO-INT,EXT-INT16,EXT-MX-COMMON at level 8K
    """
    version, form = re.search(_VERSION, text), re.fullmatch(_FORM, text)
    target = None
    if form is not None:
        profiles, extensions = map(_names, (form[2], form[3]))
        target = Target(
            form[1].upper(), profiles, tuple(f"EXT-{extension}" for extension in extensions)
        )
    return TargetEnv(None if version is None else BY_NAME.get(version[1]), target)


def _names(text: str) -> tuple[str, ...]:
    words = (word.strip() for word in text.split(","))
    return tuple(word.upper().replace("_", "-") for word in words if word)


def text_of(target: Target, version: Version) -> str | None:
    """Return the attribute's text; None if MLIR cannot read it: its parser refuses an empty list.

    Example:
        >>> print(text_of(Target("8K", ("PRO-FP",), ("EXT-MX-INT8",)), Version(1, 1, 0, draft=True)))
        #tosa.target_env<specification_version = "1.1.draft", level = "8k", profiles = [pro_fp], \
extensions = [mx_int8]>
    """
    profiles, extensions = map(_mlir_names, (target.profiles, target.extensions))
    if not profiles or not extensions:
        return None
    level = target.level.lower()
    shown = level if level.isalpha() else f'"{level}"'
    number = f"{version.major}.{version.minor}" + (".draft" if version.minor else "")
    return (
        f'#tosa.target_env<specification_version = "{number}", level = {shown}, '
        f"profiles = [{profiles}], extensions = [{extensions}]>"
    )


def _mlir_names(names: tuple[str, ...]) -> str:
    return ", ".join(name.removeprefix("EXT-").lower().replace("-", "_") for name in names)
