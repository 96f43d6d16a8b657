"""The public function of this part: `report`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args, overload

from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.io.files import PathLike, replace_file
from tosa_convert.views.pictures.diagram import SCOPES, Scopes, build_diagram
from tosa_convert.views.pictures.errors_overlay import overlay, read_result
from tosa_convert.views.pictures.placement import lay_out

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph
    from tosa_convert.views.pictures.diagram import Diagram
    from tosa_convert.views.pictures.errors_overlay import Overlay

#: What `report` writes.
ReportFormat = Literal["html", "svg", "dot", "model-explorer"]
REPORT_FORMATS: Final[tuple[ReportFormat, ...]] = get_args(ReportFormat)


class HasDict(Protocol):
    """A result of `check` or `bisect`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""


#: The extension of a file -> the form; of any other one it is HTML.
_BY_EXTENSION: Final[dict[str, ReportFormat]] = {".svg": "svg", ".dot": "dot", ".gv": "dot"}


class Report(str):
    """The text of a picture; a notebook shows the picture itself.

    to: its form, which decides how it is shown.
    """

    __slots__ = ("to",)
    to: ReportFormat

    def __repr__(self) -> str:
        return f"<report in {self.to}, {len(self)} characters; print it, or save it with a path>"

    def _repr_html_(self) -> str:
        if self.to == "svg":
            return str(self)
        from html import escape

        if self.to != "html":
            return f"<pre>{escape(self)}</pre>"
        # Of its own origin: its styles and scripts do not reach the notebook.
        return (
            '<iframe width="100%" height="600" sandbox="allow-scripts allow-downloads" '
            f'srcdoc="{escape(self)}"></iframe>'
        )


@overload
def report(
    graph: Graph,
    path: None = None,
    *,
    to: ReportFormat | None = None,
    errors: PathLike | Mapping[str, Any] | HasDict | None = None,
    scopes: Scopes = "auto",
    title: str = "",
) -> Report: ...
@overload
def report(
    graph: Graph,
    path: PathLike,
    *,
    to: ReportFormat | None = None,
    errors: PathLike | Mapping[str, Any] | HasDict | None = None,
    scopes: Scopes = "auto",
    title: str = "",
) -> None: ...
def report(
    graph: Graph,
    path: PathLike | None = None,
    *,
    to: ReportFormat | None = None,
    errors: PathLike | Mapping[str, Any] | HasDict | None = None,
    scopes: Scopes = "auto",
    title: str = "",
) -> Report | None:
    r"""Draw a program: one HTML file to look at, zoom into and search, without a network.

    Args:
        graph: the program. TOSA need not allow it; the report shows what `validate` finds.
        path: the file, which is replaced as a whole; None to return the text.
        to: "html"; "svg" for what the HTML file shows when it opens; "dot" for Graphviz;
            "model-explorer" for values and colours that Model Explorer lays over its own picture: the
            errors, or, without `errors`, the multiply-accumulates of each operator. By default the
            extension of `path` says it, if it is .svg, .dot or .gv; otherwise it is "html".
        errors: a result of `check`, `bisect`, `suite` or `power`, which is shown as colour: what these
            functions return, or the file or the content of what the verbs write as JSON.
        scopes: where groups of operators come from. "names": common folders of the names of tensors,
            such as those of "encoder/layer_1/add" or "layers.0.conv"; "locations": those of the names in
            locations; "auto": whichever has more of them; "none": no groups.
        title: the title; by default the name of the main region.

    Returns:
        The text, if `path` is None; a notebook shows the picture.

    Raises:
        TosaConvertError: what is wrong with the graph; "missing-layout" if fast-sugiyama is not
            installed, which "html" and "svg" need; "option-conflict" for an option that does not
            apply, and for `errors` of another program; "file-error".

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> for line in tc.report(graph, to="dot").splitlines()[:4]:
        ...     print(line)
        digraph "digits_cnn" {
          node [shape=box, style=rounded, fontname="monospace", fontsize=10];
          edge [fontname="monospace", fontsize=9];
          n0 [label="image\n1×1×16×16 FP32", id="n0", shape=ellipse];
    """
    if to is None:
        to = _BY_EXTENSION.get(os.path.splitext(os.fspath(path or ""))[1].lower(), "html")
    refuse_unknown("to", to, REPORT_FORMATS)
    refuse_unknown("scopes", scopes, SCOPES)
    if to == "model-explorer" and scopes != "auto":
        raise fail("option-conflict", "", "scopes does not apply to model-explorer")
    refuse_unsound(graph)
    title = title or graph.regions[0].name
    diagram = build_diagram(graph, scopes)
    pieces = _pieces(graph, diagram, to, _overlay(diagram, errors), title)
    if path is None:
        made = Report("".join(pieces))
        made.to = to
        return made
    replace_file(path, (piece.encode() for piece in pieces))
    return None


def _overlay(
    diagram: Diagram, errors: PathLike | Mapping[str, Any] | HasDict | None
) -> Overlay | None:
    if errors is None:
        return None
    if isinstance(errors, Mapping):
        return overlay(diagram, errors, "errors")
    if hasattr(errors, "to_dict"):
        return overlay(diagram, errors.to_dict(), "errors")
    return overlay(diagram, read_result(errors), str(errors))


def _pieces(
    graph: Graph, diagram: Diagram, to: ReportFormat, errors: Overlay | None, title: str
) -> Iterable[str]:
    if to == "dot":
        from tosa_convert.views.pictures.static_formats import dot

        return dot(title, diagram, errors)
    if to == "model-explorer":
        from tosa_convert.views.pictures.static_formats import error_node_data, work_node_data

        data = work_node_data(graph) if errors is None else error_node_data(diagram, errors)
        return [json.dumps(data, indent=1, allow_nan=False) + "\n"]
    rows = lay_out(diagram)
    if to == "svg":
        from tosa_convert.views.pictures.static_formats import svg

        return svg(title, diagram, rows, errors)
    from tosa_convert.views.inspection.summary import summarize
    from tosa_convert.views.pictures.html_page import html_page, page_data

    return [html_page(page_data(title, graph, summarize(graph), diagram, rows, errors))]
