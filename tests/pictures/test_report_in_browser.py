"""The report in headless Chromium: it opens, is searched and clicked, and requests nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures.browser import Browser, browser, missing
from pictures.programs import hostile, network
from unit.building import branching, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.graph import Graph
from tosa_convert.views import pictures
from tosa_convert.views.pictures.diagram import build_diagram
from tosa_convert.views.pictures.placement import lay_out, place

pytestmark = pytest.mark.usefixtures("_layout")


def opened(
    page: Browser, tmp_path: Path, program: Graph, address: str = "", **options: Any
) -> Browser:
    target = tmp_path / "report.html"
    tc.report(program, target, **options)
    page.open(target, address)
    return page


def clean(page: Browser) -> bool:
    """Return whether nothing was logged, and nothing but the page itself was requested."""
    assert page.errors() == []
    others = [url for url in page.requests() if not url.startswith(("file:", "data:,"))]
    assert others == []
    return True


def test_the_report_opens_without_a_request_and_without_an_error(
    page: Browser, tmp_path: Path
) -> None:
    opened(page, tmp_path, example(), title="an example")
    assert page.text("#title") == "an example"
    assert "TOSA version" in page.text("#panel")
    assert page.pixels() > 10, "the graph is drawn"
    assert clean(page)


def test_a_request_of_a_script_would_be_refused_and_logged(page: Browser, tmp_path: Path) -> None:
    opened(page, tmp_path, example())
    page.run("new Image().src = 'https://example.invalid/x.png'")
    page.run("fetch('https://example.invalid/y').catch(() => {})")
    page.run(
        "const script = document.createElement('script'); script.textContent = 'window.harmed = 1';"
        "document.body.append(script)"
    )
    assert page.run("return window.harmed") is None
    assert sum("Content Security Policy" in message for message in page.errors()) >= 3


def test_search_finds_operators_tensors_types_and_locations(page: Browser, tmp_path: Path) -> None:
    opened(page, tmp_path, network(64, scoped=True))
    for query, found in (
        ("op_17", "op_17"),
        ("ADD block_2", "op_23"),
        ('net.py":40:', "op_40"),
        ("FP32 tanh op_10", "op_10"),
    ):
        page.run("document.getElementById('search').value = ''")
        page.type("#search", query)
        assert found in page.text("#results li")
    page.type("#search", "\ue007")  # Enter
    assert "op_10" in page.text("#panel")
    assert page.run("return location.hash").startswith("#n")
    page.type("#search", "\ue003" * 20 + "absent")
    assert page.text("#results") == "nothing found"
    assert clean(page)


def test_a_click_on_an_operator_shows_its_attributes_values_and_location(
    page: Browser, tmp_path: Path
) -> None:
    opened(page, tmp_path, example(), "#tensor=s")
    panel = page.text("#panel")
    assert "ADD" in panel
    assert 'loc("f.mlir":2:8)' in panel
    assert "0 1 2 3 4 5" in panel, "the elements of the constant"
    assert "FP32 [2, 3]" in panel
    # The selected operator is in the middle; a click beside it selects nothing.
    page.click_at(3, 3)
    assert "TOSA version" in page.text("#panel")
    width, height = page.size()
    page.click_at(width // 2, height // 2)
    assert page.text("#panel h2") == "ADD"
    page.click("#panel button.link")
    assert page.text("#panel h2") != "ADD"
    assert clean(page)


def test_large_constants_have_statistics_and_a_histogram(page: Browser, tmp_path: Path) -> None:
    data = np.linspace(-1, 3, 1000, dtype="<f4").tobytes()
    values = [tensor("w", "FP32", (1000,), data), *(tensor(n, "FP32", (1000,)) for n in "xy")]
    made = graph("x", "y", values, [op("CONST", "", "w"), op("ADD", "x w", "y")])
    opened(page, tmp_path, made, "#tensor=y")
    assert "-1 to 3, mean 1" in page.text("#panel")
    assert page.run("return document.querySelectorAll('#panel svg rect').length") == 32
    assert clean(page)


def test_groups_open_and_close(page: Browser, tmp_path: Path) -> None:
    opened(page, tmp_path, network(128, scoped=True))
    page.click("#collapse")
    closed = page.pixels()
    page.type("#search", "stage_1\ue007")
    assert "128" not in page.text("#panel")
    assert "Open the group" in page.text("#panel")
    page.press("\ue007")  # Enter opens the selected group
    assert "Close the group" in page.text("#panel")
    page.click("#expand")
    page.click("#fit")
    assert page.pixels() != closed or closed > 0
    page.type("#search", "\ue003" * 20 + "op_100\ue007")
    assert "op_100" in page.text("#panel"), "an operator in a closed group is shown"
    assert clean(page)


def test_keys_follow_tensors(page: Browser, tmp_path: Path) -> None:
    opened(page, tmp_path, example(), "#tensor=s")
    page.run("document.getElementById('graph').focus()")
    page.press("\ue015")  # down
    assert page.text("#panel h2") == "REDUCE_SUM"
    page.press("\ue013")  # up
    assert page.text("#panel h2") == "ADD"
    page.press("\ue00c")  # Escape
    assert "TOSA version" in page.text("#panel")
    assert clean(page)


def test_regions_of_control_flow_are_groups_in_their_operator(
    page: Browser, tmp_path: Path
) -> None:
    opened(page, tmp_path, branching(), "#tensor=y")
    assert page.text("#panel h2") == "COND_IF"
    page.type("#search", "EXP\ue007")
    assert "COND_IF / then" in page.text("#panel")
    assert clean(page)


def test_errors_have_colours_a_legend_and_a_list(page: Browser, tmp_path: Path) -> None:
    comparison = tc.golden.compare(
        {"y": np.array([1, 2], np.float32)}, {"y": np.array([1, 9], np.float32)}
    )
    result = json.loads(comparison.to_json())
    opened(page, tmp_path, example(), errors=result)
    assert "RESHAPE y" in page.text(".worst")
    assert "1 of 2 elements differ" in page.text(".worst")
    assert "wrong" in page.text("#legend")
    page.click("#colors")
    assert "layout" in page.text("#legend")
    page.click(".worst button")
    assert page.text("#panel h2") == "RESHAPE"
    assert clean(page)


def test_power_has_a_legend_and_a_list_of_its_own(page: Browser, tmp_path: Path) -> None:
    ratios = {"check": 2.5, "bisect": 1.0}
    power = [
        {"name": "s", "seen_at": 0.01, "worst_ratio": ratios},
        {"name": "y", "seen_at": None, "worst_ratio": {"check": None, "bisect": 1.0}},
    ]
    opened(page, tmp_path, example(), errors={"power": power, "notes": []})
    assert page.text("#colors") == "Power"
    assert "never: no output changes" in page.text("#legend")
    assert "WHAT CHECK SEES LEAST OF" in page.text("#panel").upper()
    listed = page.text(".worst")
    assert listed.index("RESHAPE y") < listed.index("ADD s")
    assert "2.5 times the noise" in listed
    page.click(".worst button")
    assert "POWER OF THE CHECKS" in page.text("#panel").upper()
    assert clean(page)


def test_hostile_names_do_no_harm(page: Browser, tmp_path: Path) -> None:
    opened(page, tmp_path, hostile(), title="</title><script>window.harmed = 1</script>")
    page.click("#expand")
    for query in ("script", "__proto__", "constructor", "window.harmed"):
        page.run("document.getElementById('search').value = ''")
        page.type("#search", query + "\ue007")
        assert page.text("#panel h2")
    assert page.run("return window.harmed") is None
    assert page.run("return document.scripts.length") == 2
    assert page.run("return document.images.length") == 0
    assert clean(page)


def test_the_viewer_and_the_svg_place_boxes_alike(page: Browser, tmp_path: Path) -> None:
    program = network(200, scoped=True)
    diagram = build_diagram(program, "auto")
    boxes = place(diagram, lay_out(diagram)).boxes
    assert len(boxes) > 200
    target = tmp_path / "report.html"
    # A test reads what the viewer's scripts keep to themselves; its checksum in the policy changes too.
    from tosa_convert.views.pictures import html_page

    wrapped = html_page.asset

    def with_a_window(name: str) -> str:
        text = wrapped(name)
        return text + "window.boxOf = boxOf;\n" if name == "main.js" else text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_page, "asset", with_a_window)
        tc.report(program, target)
    page.open(target)
    found = page.run(
        "return arguments[0].map(boxOf).map((b) => [b.x, b.y, b.width, b.height])",
        list(boxes),
    )
    for box, there in zip(boxes.values(), found, strict=True):
        assert there == pytest.approx(list(box), abs=0.01)


def test_dark_colours_are_used_where_they_are_preferred(tmp_path: Path, page: Browser) -> None:
    target = tmp_path / "report.html"
    tc.report(example(), target)
    color = "return getComputedStyle(document.body).backgroundColor"
    page.open(target)
    light = page.run(color)
    with browser(tmp_path / "profile", dark=True) as dark:
        dark.open(target)
        assert dark.run(color) != light
        assert dark.errors() == []


@pytest.mark.long
def test_ten_thousand_operators_are_usable(page: Browser, tmp_path: Path) -> None:
    opened(page, tmp_path, network(10_000))
    page.type("#search", "op_7777\ue007")
    assert "op_7777" in page.text("#panel")
    page.click("#fit")
    assert page.pixels() > 3
    assert clean(page)


def failing() -> tuple[Graph, dict[str, Any]]:
    """Return a network, and a bisection of it: one operator is wrong, and the output inherits."""
    program = network(40)
    indices = [
        k for k, o in enumerate(program.main.operators) if not o.spec.name.startswith("CONST")
    ]
    output = program.main.outputs[0]

    def compared(name: str) -> dict[str, Any]:
        one, two = (np.array([value], np.float32) for value in (1, 2))
        return golden.compare({name: one}, {name: two}).to_dict()

    index = indices[len(indices) // 2]
    wrong = program.main.operators[index]
    row = {"index": index, "operator": f"operator #{index} {wrong.spec.name}"}
    first = {
        "kind": "by-itself",
        "operators": [row],
        "comparison": compared(wrong.outputs[0]),
    }
    return program, {"outputs": compared(output), "first": first, "others": []}


@pytest.fixture
def narrow(page: Browser) -> Iterator[Browser]:
    sizes = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
    yield page
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


_TWO_FRAMES = (
    "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
)
#: The box of the pixels that have the colour of what is most wrong.
_RED = """
const graph = document.getElementById("graph"), { width, height } = graph;
const copy = Object.assign(document.createElement("canvas"), { width, height });
const context = copy.getContext("2d", { willReadFrequently: true });
context.drawImage(graph, 0, 0);
const { data } = context.getImageData(0, 0, width, height);
const box = [width, height, -1, -1];
for (let i = 0; i < data.length; i += 4) {
  if (data[i] !== 0xd9 || data[i + 1] !== 0x2d || data[i + 2] !== 0x20) continue;
  const x = (i / 4) % width, y = Math.floor(i / 4 / width);
  box[0] = Math.min(box[0], x); box[1] = Math.min(box[1], y);
  box[2] = Math.max(box[2], x); box[3] = Math.max(box[3], y);
}
return box;
"""


def test_what_is_wrong_is_seen_when_the_report_opens(page: Browser, tmp_path: Path) -> None:
    program, result = failing()
    opened(page, tmp_path, program, errors=result)
    page.run(_TWO_FRAMES)
    left, top, right, bottom = page.run(_RED)
    width, height = page.size()
    assert 0 < left < right < width - 1
    assert 0 < top < bottom < height - 1
    places = "graph", "map"
    frames = [
        page.run(f"return document.getElementById('{name}').getBoundingClientRect().toJSON()")
        for name in places
    ]
    assert frames[0]["right"] <= frames[1]["left"], "the map covers nothing"
    assert "wrong because of what is before it" in page.text("#legend")
    assert clean(page)


def test_a_report_of_an_error_at_one_side_opens_without_an_empty_other_side(
    page: Browser, tmp_path: Path
) -> None:
    rows = [op("ABS", "x", f"b{number}") for number in range(5)]
    rows += [op("ADD", f"{'s' if k > 1 else 'b'}{k - 1} b{k}", f"s{k}") for k in range(1, 5)]
    names = ["x", *(row.outputs[0] for row in rows)]
    program = graph("x", "s4", [tensor(name, "FP32", (1, 8)) for name in names], rows)
    for name in ("b0", "b4"):
        wrong = {name: np.array([2], np.float32)}
        result = golden.compare({name: wrong[name] - 1}, wrong).to_dict()
        opened(page, tmp_path, program, errors=result)
        page.run(_TWO_FRAMES)
        is_page = "data[i] === data[0] && data[i + 1] === data[1] && data[i + 2] === data[2]"
        left, _, right, _ = page.run(
            re.sub(r"if \(.*\) continue", f"if ({is_page}) continue", _RED)
        )
        width = page.run('return document.getElementById("graph").width')
        assert 0 < left < right < width - 1
        assert abs(width - 1 - right - left) < 100, "what is drawn is in the middle"


def test_sizes_of_tensors_are_below_the_boxes_of_their_row(page: Browser, tmp_path: Path) -> None:
    """A low box beside a high one."""
    rows = [op("ABS", "x", "a"), op("TRANSPOSE", "x", "t", perms=(0, 1)), op("ADD", "a t", "y")]
    values = [tensor(name, "FP32", (8, 8)) for name in "xaty"]
    opened(page, tmp_path, graph("x", "y", values, rows))
    page.run(
        "window.heights = new Set(); const kind = CanvasRenderingContext2D.prototype;"
        "const write = kind.fillText; kind.fillText = function (text, x, y) {"
        "if (this.font.includes('10px')) window.heights.add(y); write.call(this, text, x, y); };"
    )
    page.press("+")
    page.run(_TWO_FRAMES)
    assert len(page.run("return [...window.heights]")) == 3, "of x, of a and t, and of y"
    assert clean(page)


def test_nothing_is_wider_than_a_narrow_window(narrow: Browser, tmp_path: Path) -> None:
    program, result = failing()
    opened(narrow, tmp_path, program, errors=result)
    assert narrow.run("return document.documentElement.scrollWidth") == 400
    ends = narrow.run(
        "return [...document.querySelectorAll('header *')]"
        ".map((part) => part.getBoundingClientRect().right)"
    )
    assert max(ends) <= 400
    assert clean(narrow)


#: Of each colour of an error, the contrast of a box's text.
_CONTRASTS = """
const light = (color) => {
  const parts = color.startsWith("#") ? [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16))
    : color.match(/[0-9]+/g).map(Number);
  const [r, g, b] = parts.map((p) => (p /= 255) <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const style = getComputedStyle(document.documentElement);
const names = ["no-data", "right", "within", "wrong", "worst", "inherits"];
const palette = Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
const rows = [{ ok: true, size: 0 }, { ok: true, size: 1 }, { ok: false, inherits: true, size: 2 },
  ...[1, 10, 30, 100, 1000].map((size) => ({ ok: false, size }))];
return rows.map((row) => {
  const fill = errorColor(row), [a, b] = [light(fill), light(readableOn(fill))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
});
"""


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_on_the_colours_of_errors(dark: bool, tmp_path: Path) -> None:
    if missing():
        pytest.skip(missing())
    program, result = failing()
    source = (files(pictures) / "viewer/overlay.js").read_text()
    names = "errorColor|mixed|readableOn"
    functions = re.findall(rf"^function (?:{names})\(.*?^}}", source, re.MULTILINE | re.DOTALL)
    assert len(functions) == 3
    with browser(tmp_path / "profile", dark=dark) as page:
        opened(page, tmp_path, program, errors=result)
        assert min(page.run("\n".join([*functions, _CONTRASTS]))) >= 4.5
