"""Judge networks of torch by `assert_close` and by the tolerances that authors of tests choose.

    PYTHONPATH=tests:. python tests/golden/close_faults.py --networks 40 --seeds 100 --faults 10

Three honest implementations (torch, TorchScript frozen and optimised, ONNX Runtime with all its
optimisations) compute each network of the zoo for each seed: none may fail. A fault is in one module of
torch, and counts if it changes the outputs by more than `LEAST`. It needs torch, onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import logging
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "zoo"), str(ROOT)]

import torch  # noqa: E402
from golden.chain_faults import distance  # noqa: E402
from networks import TORCH, networks  # noqa: E402

import tosa_convert as tc  # noqa: E402
from tosa_convert.golden.accuracy.comparison import compare_tensor  # noqa: E402
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES  # noqa: E402
from tosa_convert.golden.arrays import Array, scratch_folder  # noqa: E402
from tosa_convert.golden.checking.check import Reference  # noqa: E402
from tosa_convert.golden.running.run_options import RunOptions  # noqa: E402
from tosa_convert.graph import Graph  # noqa: E402

#: Who compares so -> rtol and atol: the defaults of `torch.testing` for FP32 and of `torch.onnx`, and
#: what tests of transformers state most often.
AUTHORS: Final = {
    "torch.testing": (1.3e-6, 1e-5),
    "transformers": (1e-4, 1e-4),
    "torch.onnx": (1e-3, 1e-7),
}
#: How much of the outputs a fault changes at least.
LEAST: Final = 1e-4
#: Seconds that one verdict on a network may take.
MOST: Final = 4.0

Run = Callable[[Sequence[Any]], list[Array]]


def drawn(example: Sequence[Any], seed: int) -> list[Any]:
    """Return arguments of the shapes and types of the example; integers within its range."""
    made = torch.Generator().manual_seed(seed)
    rows = []
    for leaf in example:
        if leaf.is_floating_point():
            rows.append(torch.randn(leaf.shape, generator=made).to(leaf.dtype))
        else:
            rows.append(
                torch.randint(0, int(leaf.max()) + 1, leaf.shape, generator=made).to(leaf.dtype)
            )
    return rows


def _leaves(results: Any) -> list[Array]:
    return [row.detach().numpy() for row in torch.utils._pytree.tree_leaves(results)]


def implementations(module: Any, example: Sequence[Any]) -> Iterator[tuple[str, Run]]:
    """Iterate over the honest implementations that take the network."""

    def eager(inputs: Sequence[Any]) -> list[Array]:
        with torch.no_grad():
            return _leaves(module(*inputs))

    yield "torch", eager
    try:
        with torch.no_grad():
            traced = torch.jit.trace(module, tuple(example), check_trace=False)
            script = torch.jit.optimize_for_inference(torch.jit.freeze(traced.eval()))
            script(*example)
    except Exception as error:
        print("no TorchScript:", str(error)[:100], file=sys.stderr)
    else:
        yield "TorchScript", lambda inputs: _leaves(script(*inputs))
    import onnxruntime

    try:
        file = io.BytesIO()
        torch.onnx.export(module, tuple(example), file, dynamo=False)
        session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
        names = [row.name for row in session.get_inputs()]
        if len(names) != len(example):
            raise ValueError("it has other inputs")
    except Exception as error:
        print("no ONNX Runtime:", str(error)[:100], file=sys.stderr)
    else:
        yield (
            "onnxruntime",
            lambda inputs: session.run(
                None, {name: row.numpy() for name, row in zip(names, inputs, strict=True)}
            ),
        )


def with_fault(module: Any, choose: random.Random) -> tuple[str, Any] | None:
    """Return a network with a fault in one module, and its kind; None if the draw has no place."""
    made = copy.deepcopy(module)
    parts = [part for part in made.modules() if not list(part.children())]
    part = choose.choice(parts)
    weight = getattr(part, "weight", None)
    kind = choose.choice(["channel", "precision", "bias", "scale", "activation", "epsilon"])
    with torch.no_grad():
        if kind == "channel" and weight is not None and weight.ndim:
            weight[choose.randrange(len(weight))] *= choose.choice([-1, 0, 2])
        elif kind == "precision" and weight is not None and weight.ndim > 1:
            weight.copy_(weight.to(torch.bfloat16).to(weight.dtype))
        elif kind == "bias" and getattr(part, "bias", None) is not None:
            part.bias.zero_()
        elif kind == "scale" and weight is not None and weight.is_floating_point():
            weight *= choose.choice([0.99, 1.001, 1.01])
        elif kind == "epsilon" and isinstance(getattr(part, "eps", None), float):
            part.eps *= choose.choice([10, 100, 1000])
        elif kind == "activation" and isinstance(part, torch.nn.GELU):
            part.approximate = "none" if part.approximate == "tanh" else "tanh"
        elif kind == "activation" and type(part) in (torch.nn.ReLU, torch.nn.ReLU6):
            leaky, own = torch.nn.LeakyReLU(0.01), type(part)
            part.forward = lambda x, leaky=leaky, own=own: leaky(
                own()(x) if own is not torch.nn.ReLU else x
            )
        else:
            return None
    return f"{kind} of {type(part).__name__}", made


@contextmanager
def judge_of(graph: Graph, inputs: list[Array]) -> Iterator[Callable[[list[Array]], bool]]:
    """Return whether `assert_close` accepts results; what it allows is measured once."""
    given = dict(zip(graph.main.inputs, inputs, strict=True))
    reference = Reference(graph, given, RunOptions(engine="numpy"), NO_TOLERANCES)
    right = reference.outputs
    with scratch_folder() as folder:
        criteria, _ = reference.criteria(right, folder)
        yield lambda found: all(
            compare_tensor(key, right[key], array, criteria[key]).ok
            for key, array in zip(graph.main.outputs, found, strict=True)
        )


def _by_authors(found: Sequence[Array], right: Sequence[Array]) -> dict[str, bool]:
    return {
        name: all(np.allclose(a, b, rtol, atol) for a, b in zip(found, right, strict=True))
        for name, (rtol, atol) in AUTHORS.items()
    }


def judged(
    name: str, module: Any, example: Sequence[Any], seeds: int, faults: int
) -> dict[str, Any]:
    """Return how many honest results and how many faults of a network each way of comparing accepts."""
    graph = tc.frontends.from_torch(module, tuple(example), {}, narrow="i64")

    def arrays(inputs: Sequence[Any]) -> list[Array]:
        kinds = [graph.main.tensors[key].dtype.numpy for key in graph.main.inputs]
        return [row.numpy().astype(kind) for row, kind in zip(inputs, kinds, strict=True)]

    runs = dict(implementations(module, example))
    start = time.monotonic()
    given = drawn(example, 0)
    with judge_of(graph, arrays(given)) as accepted:
        accepted(runs["torch"](given))
    if time.monotonic() - start > MOST:
        raise RuntimeError("a verdict takes long")
    row: dict[str, Any] = {"network": name, "honest": 0, "failed": [], "faults": 0, "missed": []}
    row |= {
        "failed by authors": dict.fromkeys(AUTHORS, 0),
        "missed by authors": dict.fromkeys(AUTHORS, 0),
    }
    for seed in range(seeds):
        given = drawn(example, seed)
        right = runs["torch"](given)
        with judge_of(graph, arrays(given)) as accepted:
            for software, run in runs.items():
                found = run(given)
                row["honest"] += 1
                if not accepted(found):
                    row["failed"].append([software, seed])
                for author, ok in _by_authors(found, right).items():
                    row["failed by authors"][author] += not ok
    choose, draws = random.Random(name), 0
    while row["faults"] < faults and draws < 20 * faults:
        draws += 1
        made = with_fault(module, choose)
        if made is None:
            continue
        given = drawn(example, draws)
        right, found = runs["torch"](given), _results(made[1], given)
        if not distance(found, right) >= LEAST:
            continue
        row["faults"] += 1
        with judge_of(graph, arrays(given)) as accepted:
            is_missed = accepted(found)
        if is_missed:
            row["missed"].append([made[0], draws, round(distance(found, right), 6)])
        for author, ok in _by_authors(found, right).items():
            row["missed by authors"][author] += ok
    return row


def _results(module: Any, inputs: Sequence[Any]) -> list[Array]:
    with torch.no_grad():
        return _leaves(module(*inputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--faults", type=int, default=10)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    rows: list[dict[str, Any]] = []
    for _, name, make in networks(TORCH):
        torch.manual_seed(0)
        try:
            module, example = make()
            leaves = example if isinstance(example, tuple) else (example,)
            if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
                raise TypeError("its arguments are not all tensors")
            row = judged(name, module.eval(), leaves, given.seeds, given.faults)
        except Exception as error:
            print(
                f"{name}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr, flush=True
            )
            continue
        rows.append(row)
        print(json.dumps(row), flush=True)
        if len(rows) == given.networks:
            break
    honest, faults = (sum(row[key] for row in rows) for key in ("honest", "faults"))
    failed, missed = (sum(len(row[key]) for row in rows) for key in ("failed", "missed"))
    print(
        f"{len(rows)} networks; assert_close: {failed} of {honest} honest results failed, "
        f"{faults - missed} of {faults} faults found"
    )
    for author in AUTHORS:
        own = [
            sum(row[f"{what} by authors"][author] for row in rows) for what in ("failed", "missed")
        ]
        print(f"{author} {AUTHORS[author]}: {own[0]} failed, {faults - own[1]} found")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
