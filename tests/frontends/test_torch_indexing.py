"""Torch's operators that read and write at indices give what torch gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from frontends.torch_runs import assert_equal  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("offset", [-5, -1, 0, 2, 9])
@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (4, 3)])
def test_indices_of_triangles_equal_those_of_torch(rows: int, columns: int, offset: int) -> None:
    def add(x: Any) -> Any:
        places = (
            torch.tril_indices(rows, columns, offset),
            torch.triu_indices(rows, columns, offset),
        )
        return tuple(x + one.sum() for one in places)

    assert_equal(add, torch.ones(2, dtype=torch.int64))


INDICES = [1, 4, 0, 4, 2, 2, 3]


@pytest.mark.parametrize(
    "options",
    [
        {"offsets": [0, 2, 2, 5]},
        {"offsets": [0, 2, 2, 5], "mode": 1},
        {"offsets": [0, 3], "padding_idx": 4, "mode": 1},
        {"offsets": [0, 3, 7], "include_last_offset": True},
        {"offsets": [0, 3], "per_sample_weights": [0.5, 1.0, 2.0, 0.0, 1.5, 1.0, 3.0]},
    ],
    ids=lambda options: ", ".join(options),
)
def test_embedding_bags_equal_those_of_torch(options: dict[str, Any]) -> None:
    given = dict(options)
    offsets = torch.tensor(given.pop("offsets"))
    if "per_sample_weights" in given:
        given["per_sample_weights"] = torch.tensor(given["per_sample_weights"])

    def bags(weight: Any, indices: Any) -> Any:
        return torch.ops.aten._embedding_bag(weight, indices, offsets, **given)[0]

    assert_equal(bags, torch.arange(15.0).reshape(5, 3), torch.tensor(INDICES))


def test_the_largest_rows_of_bags_are_left_to_the_list_of_what_does_not_lower() -> None:
    with pytest.raises(tc.TosaConvertError, match="embedding_bag"):
        tc.frontends.from_torch(
            torch.nn.EmbeddingBag(5, 3, mode="max").eval(), (torch.zeros(2, 4, dtype=torch.int64),)
        )


def test_bags_and_triangles_lower() -> None:
    class Pairs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = torch.nn.EmbeddingBag(5, 3, mode="sum")

        def forward(self, rows: Any) -> Any:
            x = self.bags(rows)
            down, across = torch.tril_indices(3, 3, -1)
            return (x.T @ x)[down, across]

    torch.manual_seed(0)
    module, rows = Pairs().eval(), torch.tensor([[1, 4, 0], [2, 2, 3]])
    graph = tc.frontends.from_torch(module, (rows,), narrow="i64")
    (found,) = tc.run(graph, {"rows": rows.to(torch.int32).numpy()}).outputs.values()
    np.testing.assert_allclose(found, module(rows).detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reductions_equal_those_of_torch(
    reduce: str, include_self: bool, dtype: str
) -> None:
    random = np.random.default_rng(0)
    x, source = (
        torch.tensor(random.integers(-20, 20, shape)).to(getattr(torch, dtype))
        for shape in ((5, 4), (3, 3))
    )
    index, rows, columns = (
        torch.tensor(one) for one in ([[0, 1, 2], [0, 3, 2], [0, 1, 1]], [4, 1, 4], [1, 1, 0])
    )

    def reduced(x: Any, index: Any, source: Any, rows: Any, columns: Any) -> Any:
        made = [
            x.scatter_reduce(dim, index, source, reduce, include_self=include_self)
            for dim in (0, 1, -1)
        ]
        if reduce != "sum":
            wide = source[:, :1].expand(3, 4)
            made.append(x.index_reduce(0, rows, wide, reduce, include_self=include_self))
        elif include_self:
            made.append(x.index_add(1, columns, source[:1].expand(5, 3), alpha=2))
        return made

    assert_equal(reduced, x, index, source, rows, columns)


def test_scatter_reductions_lower() -> None:
    def reduced(x: Any, index: Any, source: Any) -> Any:
        kinds = [
            x.scatter_reduce(0, index, source, kind, include_self=inside)
            for kind in ("sum", "prod", "mean", "amax", "amin")
            for inside in (True, False)
        ]
        counted = (x * 4).to(torch.int32)
        counted.view(-1).index_put_((index[0],), index[1].to(torch.int32), accumulate=True)
        return (
            *kinds,
            x.scatter(0, index, source, reduce="multiply"),
            x.scatter(0, index, 2.5, reduce="add"),
            x.index_reduce(0, index[0], source, "amax"),
            counted,
        )

    torch.manual_seed(0)
    index = torch.tensor([[0, 1, 2], [0, 3, 2], [0, 1, 1]])
    assert_equal(reduced, torch.randn(4, 3), index, torch.randn(3, 3), rtol=1e-5)


def test_what_torch_cannot_trace_is_named() -> None:
    torch.library.define("tosa_tests::half", "(Tensor x) -> Tensor")
    torch.library.impl("tosa_tests::half", "cpu")(lambda x: x / 2)

    class Untraced(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.tosa_tests.half(x)

    with pytest.raises(tc.TosaConvertError, match=r"tosa_tests\.half") as caught:
        tc.frontends.from_torch(Untraced(), (torch.randn(4, 3),))
    assert caught.value.code == "not-lowered"


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize(
    ("shape", "dim"), [((5, 3), 0), ((5, 2, 3), 0), ((1, 5, 3), -2), ((5,), 0), ((2, 5), 1)]
)
def test_rows_are_selected_as_rows(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    numbers = torch.arange(math.prod(shape)).reshape(shape).to(getattr(torch, dtype))

    class Selects(torch.nn.Module):
        def forward(self, x: Any, index: Any) -> Any:
            return torch.index_select(x, dim, index)

    index = torch.tensor([4, 0, 3, 4], dtype=torch.int32)
    graph = tc.frontends.from_torch(Selects(), (numbers, index))
    given = zip(graph.main.inputs, (numbers.numpy(), index.numpy()), strict=True)
    (found,) = tc.run(graph, dict(given)).outputs.values()
    assert np.array_equal(found, torch.index_select(numbers, dim, index).numpy())
    (gather,) = [row for row in graph.main.operators if row.spec.name == "GATHER"]
    gathered = graph.main.tensors[gather.inputs[0]].shape
    assert gathered is not None
    assert gathered[1] == 5


@pytest.mark.parametrize("place", [2, -1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_writes_at_a_computed_place_equal_those_of_torch(dtype: str, place: int) -> None:
    def written(x: Any, at: Any, row: Any) -> Any:
        cache, rows = x.clone(), x.clone()
        cache[:, at] = row
        rows[at.reshape(1)[0]] = True
        rows[:, at] *= row
        return cache, rows, x[at]

    x = torch.arange(24).reshape(3, 4, 2).to(getattr(torch, dtype))
    assert_equal(written, x, torch.tensor(place), x[:, 0])


def test_parts_at_a_computed_place_equal_those_of_torch() -> None:
    def parts(x: Any, at: Any, rows: Any) -> Any:
        first = at.item()
        torch._check(first >= 0)
        torch._check(first <= 2)
        cache = x.clone()
        cache[:, first : first + 2] = rows
        return cache, x.narrow(1, first, 2), x * (first + 1)

    assert_equal(parts, torch.randn(3, 4), torch.tensor(1), torch.randn(3, 2))


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int16", "int32", "int64", "bool"])
def test_sums_at_many_indices_equal_those_of_torch(dtype: str, is_known: bool) -> None:
    held, random = torch.arange(1100) % 512, torch.Generator().manual_seed(0)
    rows = torch.randint(-(2**31), 2**31, (1100, 64), generator=random)
    rows = (rows / 2**31 if dtype == "float32" else rows >> 8).to(getattr(torch, dtype))
    if dtype == "float32":
        for place, number in ((5, math.inf), (8, -math.inf), (520, math.inf), (30, math.nan)):
            rows[place, 3] = number

    def added(x: Any, index: Any, rows: Any) -> Any:
        return x.index_add(0, held if is_known else index, rows)

    assert_equal(added, rows[:512].flip(1), held, rows)


def test_scattered_rows_of_many_indices_equal_those_of_torch() -> None:
    index, rows = torch.arange(1100) % 512, torch.randn(1100, 64)
    rows[5] = math.inf
    assert_equal(
        lambda x, index, rows: x.scatter_add(0, index[:, None].expand(-1, 64), rows),
        *(torch.randn(512, 64), index, rows),
        rtol=1e-5,
    )


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_an_infinite_row_stays_in_its_bag(mode: str) -> None:
    def bags(table: Any, index: Any, offsets: Any) -> Any:
        bag = torch.nn.functional.embedding_bag
        return (
            bag(index, table, offsets, mode=mode),
            bag(index, table, torch.tensor([0, 2]), mode=mode, padding_idx=2),
        )

    table = torch.tensor([[1.0], [2.0], [math.inf]])
    assert_equal(bags, table, torch.arange(3), torch.tensor([0, 2]))


@pytest.mark.parametrize("include_self", [True, False])
def test_truth_values_are_reduced_as_by_torch(include_self: bool) -> None:
    def reduced(x: Any, index: Any, source: Any) -> Any:
        kinds = ("sum", "prod", "amax", "amin")
        return (
            *(
                x.scatter_reduce(0, index, source, kind, include_self=include_self)
                for kind in kinds
            ),
            *(x.index_add(0, index, source), x.index_put((index,), source, accumulate=True)),
        )

    x, index = torch.tensor([True, False, True, False]), torch.tensor([0, 0, 1, 1, 3])
    assert_equal(reduced, x, index, torch.tensor([True, True, False, False, True]))


@pytest.mark.parametrize("count", [1, 200, 255])
@pytest.mark.parametrize("include_self", [True, False])
def test_means_of_few_bits_wrap_around_as_in_torch(include_self: bool, count: int) -> None:
    def means(x: Any, index: Any, source: Any) -> Any:
        return (
            x.scatter_reduce(0, index, source, "mean", include_self=include_self),
            x.index_reduce(0, index, source, "mean", include_self=include_self),
        )

    x = torch.tensor([100, -7], dtype=torch.int8)
    assert_equal(means, x, torch.zeros(count, dtype=torch.int64), x[:1].expand(count).contiguous())


@pytest.mark.parametrize("right", [False, True])
def test_nan_is_above_all_boundaries(right: bool) -> None:
    def found(x: Any) -> Any:
        bounds = torch.tensor([0.0, 1.0])
        return torch.searchsorted(bounds, x, right=right), torch.bucketize(x, bounds, right=right)

    assert_equal(found, torch.tensor([math.nan, -1, 0, 0.5, 1, 2, math.inf, -math.inf]))
