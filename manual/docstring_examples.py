"""Docstrings for the site: `Example:` is read as a section of examples, which are shown as code.

Google's style calls this section `Examples:`; text of another section would be read as Markdown, in
which `>>>` is a quotation.
"""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object

from manual.pages import with_examples


class DocstringExamples(Extension):
    """Renames the section in every docstring."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = with_examples(obj.docstring.value)
