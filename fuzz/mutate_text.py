"""Mutations of JSON and of MLIR text, by tokens."""

from __future__ import annotations

import re
from random import Random
from typing import Final

from mutate_bytes import INTERESTING, mutate_bytes

_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*"|[%@#!]?[A-Za-z_][\w.$]*|-?\d[\w.+-]*|\s+|.', re.DOTALL
)

_JSON_WORDS: Final = [
    b"null", b"true", b"false", b"{}", b"[]", b'""', b"-1", b"1.5", b"1e400", b"-0", b"NaN", b"0x10",
    b'"\\ud800"', b'"\\u0000"', b'"\xff"', b"//x\n", b"/*", b"9" * 30, b"9" * 5000, b"[" * 100,
    b'{"a":' * 100, b'"FP32"', b'"INT4"', b'"BOOL"', b'"SHAPE"', b'"UNKNOWN"', b'"../x.npy"',
    b'"FP8E4M3"', b'"BLOCK_SHAPE_32"', b"01", b"+1", b"'a'", b"\xef\xbb\xbf", b"\0",
]  # fmt: skip
_MLIR_WORDS: Final = [
    b"tensor<2x3xf32>", b"tensor<*xf32>", b"tensor<?xi8>", b"tensor<0xf32>", b"tensor<f32>", b"i32",
    b"f64", b"i4", b"i48", b"ui8", b"index", b"none", b"!tosa.shape<2>", b"!tosa.shape<0>",
    b"!tosa.mxint8",
    b"tensor<9223372036854775807xf32>", b"tensor<2147483648x2xi8>", b"vector<4xf32>", b"memref<4xf32>",
    b"complex<f32>", b"tuple<>", b"() -> ()", b"dense<0>", b"dense<[]>", b"dense_resource<x>", b"unit",
    b"\"tosa.custom\"", b"tosa.identity", b"true", b"@main", b"{}", b"()", b"-1", b"1.0", b"0x7FC00000",
    b"loc(unknown)", b"#tosa.nan_mode<IGNORE>", b"array<i64: 1, 2>", b"array<i32>", b'"\\FF"',
    b'loc("\\FF":1:2)', b"!quant.any<i8>",
    b"tensor<32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>", b"affine_map<(d0) -> (d0)>",
]  # fmt: skip


def tokens_of(text: bytes) -> list[bytes]:
    """Return the text as words, numbers, strings, punctuation and white space."""
    return _TOKEN.findall(text)


def _number(token: bytes, random: Random) -> bytes:
    digits = token.lstrip(b"-")
    near = int(digits) + 1 if digits.isdigit() and len(digits) < 30 else 5
    value = random.choice([*INTERESTING, -1, -2, near])
    return str(value if random.random() < 0.8 else -value).encode()


def mutate_text(tokens: list[bytes], random: Random, *, mlir: bool) -> bytes:
    """Return a mutant of the text: one to four tokens, lines or bytes changed."""
    found = list(tokens)
    words = _MLIR_WORDS if mlir else _JSON_WORDS
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        if not found:
            break
        at = random.randrange(len(found))
        # White space has no meaning: take the next token.
        while at + 1 < len(found) and found[at].isspace():
            at += 1
        token = found[at]
        match random.choice((0, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 7, 8, 9)):
            case 0:
                del found[at]
            case 1:
                found.insert(at, token)
            case 2:
                found[at] = random.choice(words)
            case 3:
                found[at] = random.choice(found)
            case 4 | 5 if token.lstrip(b"-")[:1].isdigit():
                found[at] = _number(token, random)
            case 4 | 5:
                # Replace it by another token of its kind: a string, a word, a sign.
                same = [other for other in found if other[:1] == token[:1]]
                found[at] = random.choice(same)
            case 6:
                end = min(len(found), at + random.randrange(1, 60))
                del found[at:end]
            case 7:
                end = min(len(found), at + random.randrange(1, 60))
                place = random.randrange(len(found))
                found[place:place] = found[at:end]
            case 8:
                raw = bytearray(token)
                mutate_bytes(raw, random, 1)
                found[at] = bytes(raw)
            case _:
                if random.random() < 0.1:
                    del found[at:]
                else:
                    found.insert(at, random.choice(words))
    return b"".join(found)
