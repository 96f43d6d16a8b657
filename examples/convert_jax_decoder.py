# SPDX-License-Identifier: Apache-2.0
"""Convert a decoder with a cache from JAX, and run it token by token on the reference model.

    python convert_jax_decoder.py [FILE]   # default: decoder.tosa

The decoder is a module of flax.nnx: attention over the tokens so far, and a projection. Its cache
becomes variables of the program, so that each run takes one token. It is not trained. It needs jax,
flax, and to run the program the reference model (pip install jax flax tosa-tools).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from flax import nnx

import tosa_convert as tc

TOKENS, WIDTH, HEADS, WORDS = 6, 16, 4, 10


class Decoder(nnx.Module):  # type: ignore[misc, unused-ignore]
    """One step of a decoder: a vector in, scores of words out."""

    def __init__(self, rngs: Any) -> None:
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=True, rngs=rngs)
        self.words = nnx.Linear(WIDTH, WORDS, rngs=rngs)
        self.attention.init_cache((1, TOKENS, WIDTH))

    def __call__(self, token: Any) -> Any:
        hidden = token + self.attention(self.norm(token))
        return {"scores": self.words(hidden)[0, 0]}


def main(path: str = "decoder.tosa") -> None:
    decoder = Decoder(nnx.Rngs(0))
    tokens = np.random.default_rng(0).standard_normal((TOKENS, 1, 1, WIDTH)).astype(np.float32)
    graph = tc.frontends.from_jax(decoder, (tokens[0],))
    tc.save(graph, path)
    print(f"{path}: {len(graph.main.operators)} operators, TOSA {graph.version}")

    variables: dict[str, Any] = {}
    for index, token in enumerate(tokens):
        run = tc.run(graph, {"token": token}, variables=variables)
        variables = dict(run.variables)
        expected = np.asarray(decoder(token)["scores"])
        np.testing.assert_allclose(run.outputs["scores"], expected, rtol=1e-4, atol=1e-5)
        print(f"token {index}: word {run.outputs['scores'].argmax()}, as in JAX")


if __name__ == "__main__":
    main(*sys.argv[1:])
