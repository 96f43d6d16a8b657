"""JSON -> Graph: every form of the text, malformed text, and lists of bytes."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.json_text import OPERATOR, TENSOR, base, refused, respelled

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.json import values
from tosa_convert.formats.json.read import read


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "found the end of the text, expected an object"),
        (b"   // only\n", "found the end of the text, expected an object"),
        (b"[]", "found a list, expected an object"),
        (b"null", "found null, expected an object"),
        (b"{", "found the end of the text, expected a field's name"),
        (b'{"version"', 'expected ":"'),
        (b'{"version" 1}', 'found 1, expected ":"'),
        (b'{"version":', "found the end of the text, expected an object"),
        (b"{,}", 'found ",", expected a field\'s name'),
        (b"{'version': {}}", "expected a field's name"),
        (b"{#", "found #, expected a field's name"),
        (b"{} {}", "found an object after the end of the graph"),
        (b"{}\0", "found \\x00 after the end of the graph"),
        (b"{} /", 'found "/"'),
        (b"{ /* }", "a comment starts here and does not end"),
        (b'{"regions": [', "found the end of the text, expected an object"),
        (b'{"regions": [{}', 'expected "," or "]"'),
        (b'{"regions": [{} {}]}', 'found an object, expected "," or "]"'),
        (b'{"regions": [,]}', 'found ",", expected an object'),
        (b'{"regions": [}', 'found "}", expected an object'),
        (b'{"x": ]}', 'found "]", expected a value'),
        (b'{"x": [}]}', 'found "}", expected a value'),
        (b'{"x": "a', "a string starts here and does not end"),
        (b'{"x": "a\\', "a string starts here and does not end"),
        (b'{"x": "a\nb"}', "found the control character 0x0A in a string"),
        (b'{"regions": [{"name": "a\tb"}]}', "found the control character 0x09 in a string"),
        (b'{"regions": [{"name": "ab', "a string starts here and does not end"),
        (
            b'{"regions": [{"name": "\\x41"}]}',
            "the escape \\x is not a character",
        ),
        (b'{"regions": [{"name": "\\ud83d"}]}', "the escape \\ud83d"),
        (b'{"regions": [{"name": "\\ud83d\\u0041"}]}', "the escape \\ud83d"),
        (b'{"regions": [{"name": "\\ude00"}]}', "the escape \\ude00"),
        (b'{"regions": [{"name": "\\u00g0"}]}', "the escape \\u00g0"),
        (b'{"regions": [{"name": "\\u0', "the escape \\u0"),
        (b'{"regions": [{"name": "\\', "the escape \\"),
        (b'{"regions": [{"name": "\xff"}]}', "a string is not UTF-8"),
        (b'{"regions": [{"name": "\\n\xc3"}]}', "a string is not UTF-8"),
        (b'{"regions": [{"name": "\xed\xa0\x80"}]}', "a string is not UTF-8"),
        ("{}".encode("utf-16"), "found"),
        (b"\xff\xfe\xfd", "found \\xff\\xfe\\xfd, expected an object"),
    ],
)
def test_malformed_text_is_refused(raw: bytes, message: str) -> None:
    error = refused(raw)
    assert error.code == "malformed-json"
    assert any(message in row.message for row in error.findings)


@pytest.mark.parametrize(
    "form",
    ["[1 2]", "[1,,2]", "[,]", "[,1]", "[1;2]", "[1", "[1, 2", "[1 ,2 /*", "[007]", "[1\n2, 3]"],
)
@pytest.mark.parametrize("before", [0, 3000])
def test_a_malformed_list_of_bytes_is_refused(form: str, before: int) -> None:
    start = "[" + "1, " * before
    raw = respelled('"data": [1, 2]', f'"data": {start}{form[1:]}')
    assert refused(raw).code == "malformed-json"


@given(
    st.binary(min_size=0, max_size=2000),
    st.sampled_from([",", ", ", " ,\n", ",\n                "]),
    st.sampled_from(["", ",", " ", "\n, "]),
)
def test_long_lists_of_bytes_are_read_as_json_does(data: bytes, comma: str, tail: str) -> None:
    listed = "[" + comma.join(map(str, data)) + (tail if data else "") + "]"
    raw = respelled('"data": [1, 2]', f'"data": {listed}').replace(b"[2]", b"[%d]" % len(data), 1)
    found = read(raw).main.tensors["a"].data
    assert (b"" if found is None else bytes(found.buffer)) == data


@given(st.text(alphabet="0123456789, \n", max_size=40), st.booleans())
def test_numbers_are_converted_at_once_only_if_all_of_them_are_right(raw: str, last: bool) -> None:
    found = values.parse_byte_list(raw.encode(), last=last)
    assert values.few_bytes(raw.encode(), last=last) == found
    words = [word.strip() for word in raw.split(",")]
    # Nothing follows the last comma, unless the list may end without one.
    complete = words[-1] == "" or last
    if words[-1] == "":
        words.pop()
    right = complete and all(re.fullmatch("0|[1-9][0-9]{0,2}", word) for word in words)
    expected = list(map(int, words)) if right else [256]
    assert (None if found is None else found.tolist()) == (
        expected if all(value < 256 for value in expected) else None
    )


@pytest.mark.parametrize(
    "key",
    ['"axis"', "axis", '"\\u0061xis"', '/**/"axis"/**/', '//\n"axis"//\n', " axis /* */"],
)
def test_a_key_is_read_alike_in_every_form(key: str) -> None:
    assert read(respelled('"axis"', key)).main.operators[0].attributes == {"axis": 1}
    (finding,) = refused(respelled('"axis"', key.replace("xis", "xes"))).findings
    assert finding.where.endswith(f"{OPERATOR}.attribute.axes")
    assert finding.message == "unknown field, expected one of: axis"


@pytest.mark.parametrize("form", ["{},", "{}/**/,", "/**/{},", "//\n{}//\n,", " \t\r\n{} ,"])
def test_members_of_lists_are_read_alike_in_every_form(form: str) -> None:
    def listed(members: list[str]) -> bytes:
        made = json.dumps(base()).replace('"outputs": ["b"]}]}', '"outputs": ["b"], "x": 0}]}')
        text = "[" + "".join(form.format(member) for member in members) + "]"
        return made.replace('["a"]', text, 1).encode() if '"' in members[0] else (
            made.replace("[2]", text, 1).encode()
        )  # fmt: skip

    names, dims = ['"a"', '""', '"a"', '"\\u0062"'], ["2", "0", "-2147483648", "2147483647"]
    for members, field in ((names, f"{OPERATOR}.inputs"), (dims, f"{TENSOR}.shape")):
        error = refused(listed([*members, "2147483648"]))
        assert error.findings[0].where.endswith(f"{field}[4]")
        assert error.findings[0].message.startswith("found 2147483648, expected a")
    found = read(listed(names).replace(b', "x": 0', b"")).main.operators[0]
    assert found.inputs == ("a", "", "a", "b")
    with pytest.raises(TosaConvertError, match=re.escape("[2, 0, -2147483648, 2147483647]")):
        read(listed(dims).replace(b', "x": 0', b""))


def test_a_finding_shows_its_line_with_a_caret() -> None:
    raw = respelled('"op": "REVERSE"', '\n\t"op": "REVERSO"').replace(b'"axis": 1', b'"axis": -')
    first, second = refused(raw).findings
    line, caret = first.excerpt.split("\n")
    assert first.where.startswith("line 2:8: ")
    assert line.startswith('    "op": "REVERSO", "attribute_type"')
    assert caret == " " * 10 + "^"
    line, caret = second.excerpt.split("\n")
    assert line[len(caret) - 1 :].startswith("-}")
    assert len(line) <= 100
    assert f"\n    {line}\n    {caret}" in str(refused(raw))
