"""Reductions, views, indexing and comparisons of torch."""

from __future__ import annotations

from functools import partial

import torch
from programs import Program, flags, floats, ints, of
from torch import nn
from torch.nn import functional


def _assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    made = x.clone()
    made[1:] = y
    return made


make_sum = partial(of, torch.sum, floats(2, 3, 4))
make_sum_axes = partial(of, lambda x: x.sum((0, 2), keepdim=True), floats(2, 3, 4))
make_mean = partial(of, lambda x: x.mean(-1), floats(2, 3, 4))
make_amax = partial(of, lambda x: x.amax((1, 2)), floats(2, 3, 4))
make_amin = partial(of, lambda x: x.amin(0), floats(2, 3, 4))
make_max_all = partial(of, torch.max, floats(2, 3))
make_max_axis = partial(of, lambda x: x.max(1), floats(2, 3))
make_min_axis = partial(of, lambda x: x.min(1), floats(2, 3))
make_argmax = partial(of, lambda x: x.argmax(1), floats(2, 3))
make_argmax_all = partial(of, torch.argmax, floats(2, 3))
make_argmin = partial(of, lambda x: x.argmin(-1), floats(2, 3))
make_prod = partial(of, lambda x: x.prod(1), floats(2, 3))
make_var = partial(of, lambda x: x.var(1), floats(2, 5))
make_var_biased = partial(of, lambda x: x.var(1, unbiased=False), floats(2, 5))
make_std = partial(of, lambda x: x.std(), floats(2, 5))
make_var_mean = partial(of, lambda x: torch.var_mean(x, 1), floats(2, 5))
make_norm = partial(of, lambda x: torch.linalg.vector_norm(x, dim=1), floats(2, 5))
make_norm_1 = partial(of, lambda x: torch.linalg.vector_norm(x, 1, dim=1), floats(2, 5))
make_norm_largest = partial(
    of, lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1), floats(2, 5)
)
make_logsumexp = partial(of, lambda x: torch.logsumexp(x, 1), floats(2, 5))
make_cumsum = partial(of, lambda x: x.cumsum(1), floats(2, 5))
make_cumprod = partial(of, lambda x: x.cumprod(1), floats(2, 5))
make_cummax = partial(of, lambda x: x.cummax(1)[0], floats(2, 5))
make_any = partial(of, lambda x: x.any(1), flags(2, 5))
make_all = partial(of, lambda x: x.all(), flags(2, 5))
make_count_nonzero = partial(of, lambda x: torch.count_nonzero(x, 1), ints(2, 5))
make_median = partial(of, lambda x: x.median(1)[0], floats(2, 5))
make_topk = partial(of, lambda x: x.topk(2), floats(2, 5))
make_sort = partial(of, lambda x: x.sort(1), floats(2, 5))
make_argsort = partial(of, lambda x: x.argsort(1), floats(2, 5))
make_reshape = partial(of, lambda x: x.reshape(3, -1), floats(2, 3, 4))
make_flatten = partial(of, lambda x: x.flatten(1), floats(2, 3, 4))
make_permute = partial(of, lambda x: x.permute(2, 0, 1), floats(2, 3, 4))
make_transpose = partial(of, lambda x: x.transpose(0, 2), floats(2, 3, 4))
make_movedim = partial(of, lambda x: x.movedim(0, -1), floats(2, 3, 4))
make_squeeze = partial(of, lambda x: x.squeeze(1), floats(2, 1, 4))
make_unsqueeze = partial(of, lambda x: x.unsqueeze(1), floats(2, 4))
make_expand = partial(of, lambda x: x.expand(2, 3, 4), floats(3, 1))
make_repeat = partial(of, lambda x: x.repeat(2, 3), floats(2, 3))
make_tile = partial(of, lambda x: x.tile(2), floats(2, 3))
make_repeat_interleave = partial(of, lambda x: x.repeat_interleave(2, 1), floats(2, 3))
make_slice = partial(of, lambda x: x[:, 1:3], floats(2, 4))
make_slice_step = partial(of, lambda x: x[:, 1::2], floats(2, 7))
make_select = partial(of, lambda x: x[:, -1], floats(2, 4))
make_narrow = partial(of, lambda x: x.narrow(1, 1, 2), floats(2, 4))
make_split = partial(of, lambda x: x.split(2, 1), floats(2, 5))
make_chunk = partial(of, lambda x: x.chunk(2), floats(4, 3))
make_unbind = partial(of, lambda x: x.unbind(1), floats(2, 3))
make_cat = partial(of, lambda x, y: torch.cat([x, y], 1), floats(2, 3), floats(2, 1))
make_stack = partial(of, lambda x, y: torch.stack([x, y], 1), floats(2, 3), floats(2, 3, seed=1))
make_flip = partial(of, lambda x: x.flip(0, 1), floats(2, 3))
make_roll = partial(of, lambda x: x.roll(1, 1), floats(2, 4))
make_rot90 = partial(of, torch.rot90, floats(2, 3))
make_unfold = partial(of, lambda x: x.unfold(1, 3, 2), floats(2, 7))
make_pad = partial(of, lambda x: functional.pad(x, (1, 2, 0, 1), value=3.0), floats(2, 3))
make_pad_negative = partial(of, lambda x: functional.pad(x, (-1, 1)), floats(2, 3))
make_pad_reflect = partial(of, lambda x: functional.pad(x, (1, 2), mode="reflect"), floats(1, 2, 4))
make_pad_replicate = partial(
    of, lambda x: functional.pad(x, (1, 2), mode="replicate"), floats(1, 2, 4)
)
make_pad_circular = partial(
    of, lambda x: functional.pad(x, (1, 2), mode="circular"), floats(1, 2, 4)
)
make_tril = partial(of, torch.tril, floats(3, 4))
make_triu = partial(of, lambda x: x.triu(1), floats(3, 4))
make_diagonal = partial(of, torch.diagonal, floats(3, 4))
make_diag_embed = partial(of, torch.diag_embed, floats(2, 3))
make_meshgrid = partial(
    of, lambda x, y: torch.meshgrid(x, y, indexing="ij"), floats(2), floats(3, seed=1)
)
make_arange = partial(of, lambda x: x + torch.arange(4), floats(4))
make_full_like = partial(of, lambda x: torch.full_like(x, 2.5) * x, floats(2, 3))
make_index_select = partial(
    of, lambda x, i: x.index_select(1, i), floats(2, 4), torch.tensor([3, 0])
)
make_gather = partial(of, lambda x, i: x.gather(1, i), floats(2, 4), torch.tensor([[3, 0], [1, 1]]))
make_take_along_dim = partial(
    of, lambda x, i: x.take_along_dim(i, 1), floats(2, 4), torch.tensor([[3], [1]])
)
make_scatter = partial(
    of,
    lambda x, i, y: x.scatter(1, i, y),
    floats(2, 4),
    torch.tensor([[3, 0], [1, 2]]),
    floats(2, 2),
)
make_scatter_value = partial(
    of, lambda x, i: x.scatter(1, i, 7.0), floats(2, 4), torch.tensor([[3, 0], [1, 2]])
)
make_scatter_add = partial(
    of,
    lambda x, i, y: x.scatter_add(1, i, y),
    floats(2, 4),
    torch.tensor([[3, 3], [1, 2]]),
    floats(2, 2),
)
make_index = partial(of, lambda x, i: x[i], floats(4, 3), torch.tensor([3, 0]))
make_index_two = partial(
    of, lambda x, i, j: x[i, j], floats(4, 3), torch.tensor([3, 0]), torch.tensor([1, 2])
)
make_index_put = partial(
    of, lambda x, i, y: x.index_put((i,), y), floats(4, 3), torch.tensor([3, 0]), floats(2, 3)
)
make_index_add = partial(
    of, lambda x, i, y: x.index_add(0, i, y), floats(4, 3), torch.tensor([3, 0]), floats(2, 3)
)
make_index_copy = partial(
    of, lambda x, i, y: x.index_copy(0, i, y), floats(4, 3), torch.tensor([3, 0]), floats(2, 3)
)
make_masked_fill = partial(of, lambda x, m: x.masked_fill(m, -1.0), floats(2, 3), flags(2, 3))
make_slice_assign = partial(of, _assigned, floats(3, 4), floats(2, 4, seed=1))
make_embedding = partial(of, nn.Embedding(10, 4), torch.tensor([[1, 9], [0, 3]]))
make_embedding_bag = partial(of, nn.EmbeddingBag(10, 4), torch.tensor([[1, 9], [0, 3]]))
make_one_hot = partial(of, lambda i: functional.one_hot(i, 5), torch.tensor([1, 4]))
make_bucketize = partial(
    of, lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), floats(2, 3)
)
make_kthvalue = partial(of, lambda x: x.kthvalue(3, 1), floats(2, 7))
make_median_of_pairs = partial(of, lambda x: x.median(0, keepdim=True)[0], floats(6, 3))
make_histc = partial(of, lambda x: torch.histc(x, 6, -1, 1.5), floats(40))
make_linalg_det_3x3 = partial(of, torch.linalg.det, floats(4, 3, 3))
make_linalg_inv_3x3 = partial(of, torch.linalg.inv, floats(4, 3, 3) + 4 * torch.eye(3))
make_linalg_inv_2x2 = partial(of, torch.linalg.inv, floats(2, 2) + 3 * torch.eye(2))


def make_grouped_mm() -> Program:
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)
    return of(
        lambda x, w, e: functional.grouped_mm(x.bfloat16(), w.bfloat16(), offs=e).float(),
        floats(8, 16),
        floats(3, 16, 16, seed=1),
        ends,
    )


make_sort_int = partial(of, lambda x: torch.sort(x, dim=0, stable=True), ints(7, 3))
make_sort_stable_descending = partial(
    of, lambda x: torch.sort(x.round(), stable=True, descending=True), floats(3, 7)
)
make_topk_int = partial(of, lambda x: torch.topk(x, 3)[0], ints(3, 7))
make_kthvalue_int = partial(of, lambda x: torch.kthvalue(x, 2, 0)[0], ints(5, 3))
make_median_of_all = partial(of, torch.median, floats(3, 7))


def make_numbers_of_rank_0() -> Program:
    def compute(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        best = x.sort()[0] + x.argmax()
        return x.cumsum(0), x.softmax(0), torch.stack([x, y]), best, x[None].expand(3) * y

    return of(compute, floats(), floats(seed=1))


make_index_by_number = partial(of, lambda x, i: (x[i], x[:, i - 3]), floats(3, 4), torch.tensor(2))
make_cat_of_empty = partial(of, lambda x: torch.cat([torch.empty(0, 4), x, x[:0]]), floats(3, 4))
make_named_results = partial(of, lambda x: (torch.sort(x, dim=1), x.topk(2)), floats(3, 5))
make_linalg_det_6x6 = partial(of, torch.linalg.det, floats(2, 6, 6))
make_linalg_inv_6x6 = partial(of, torch.linalg.inv, floats(2, 6, 6) + 4 * torch.eye(6))
make_linalg_slogdet = partial(of, torch.linalg.slogdet, floats(3, 4, 4))


def make_linalg_solve_with_swaps() -> Program:
    matrix = torch.tensor([[0.0, 1, 0], [0, 0, 2], [3, 0, 0]])
    return of(torch.linalg.solve, matrix, floats(3, 2))


def make_linalg_solve_from_the_right() -> Program:
    function = lambda x, y: torch.linalg.solve(x, y, left=False)  # noqa: E731
    return of(function, floats(4, 4) + 4 * torch.eye(4), floats(2, 4, seed=1))


def make_linalg_solve_triangular() -> Program:
    solve = torch.linalg.solve_triangular
    function = lambda x, y: solve(x, y, upper=True, unitriangular=True)  # noqa: E731
    return of(function, floats(4, 4), floats(4, 2, seed=1))


def make_linalg_cholesky() -> Program:
    factor = torch.linalg.cholesky
    return of(lambda x: factor(x @ x.mT + torch.eye(5)), floats(2, 5, 5))


def make_cholesky_solve_upper() -> Program:
    def solve(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        factor = torch.linalg.cholesky(x @ x.mT + torch.eye(3), upper=True)
        return torch.cholesky_solve(y, factor, upper=True)

    return of(solve, floats(3, 3), floats(3, 1, seed=1))


def _all_comparisons(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compare with a number that FP32 rounds up and FP16 rounds down."""
    return x == 0.1, x != 0.1, x < 0.1, x <= 0.1, x > 0.1, x >= 0.1


make_compare_number = partial(of, _all_comparisons, torch.tensor([0.1, 0.3, -0.1]))
make_compare_number_half = partial(of, _all_comparisons, torch.tensor([0.1, 0.3, -0.1]).half())
make_compare_number_int32 = partial(
    of, _all_comparisons, torch.tensor([0, 1, -1], dtype=torch.int32)
)
make_fmod_number = partial(of, lambda x: torch.fmod(x * 5, 0.7), floats(2, 3, 4))


def make_fmod_of_multiples() -> Program:
    """Divide 0.7 * 3 by 0.7: the quotient may round to 3 or to less."""
    return of(torch.fmod, ints(40).float() * 0.7, torch.tensor([0.7]))


make_rrelu = partial(of, torch.nn.RReLU(), floats(2, 3, 4))
