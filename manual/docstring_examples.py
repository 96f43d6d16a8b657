"""Docstrings and signatures for the site.

`Example:` is read as a section of examples, which are shown as code. Google's style calls this section
`Examples:`; text of another section would be read as Markdown, in which `>>>` is a quotation.

Keywords that a function takes as `**options: Unpack[...]` are shown as its parameters.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from griffe import Extension, Function, Object, Parameter, ParameterKind, Parameters

from manual.pages import with_examples


class DocstringExamples(Extension):
    """Renames the section in every docstring, and lists keywords in every signature."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = with_examples(obj.docstring.value)

    def on_function(self, *, func: Function, **kwargs: Any) -> None:
        """Called for each function, with its overloads, before its docstring is read."""
        if any("Unpack" in str(row.annotation) for row in func.parameters):
            module = importlib.import_module(func.module.path)
            listed = inspect.signature(getattr(module, func.name)).parameters.values()
            own = [row for row in func.parameters if row.kind is not ParameterKind.var_keyword]
            names = {row.name for row in own}
            more = [
                Parameter(
                    row.name,
                    annotation=str(row.annotation),
                    kind=ParameterKind.keyword_only,
                    default=repr(row.default),
                )
                for row in listed
                if row.name not in names
            ]
            func.parameters = Parameters(*own, *more)
