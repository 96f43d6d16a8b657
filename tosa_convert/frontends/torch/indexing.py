"""Torch operators that move elements, by operators that lower to TOSA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch

#: Elements of the comparison of every index with every position, above which it is not made.
_COMPARED: Final = 1 << 24


def select_by_tensors(program: Any) -> None:
    """Gather in place, in a program, what it selects by the only element of a tensor, as `x[i]` does."""
    aten, graph = torch.ops.aten, program.graph
    found = [
        node
        for node in graph.find_nodes(op="call_function", target=aten.select.int)
        if getattr(node.args[2], "target", None) is aten.item.default
    ]
    for node in found:
        x, dim, number = node.args
        (index,) = number.args
        size = x.meta["val"].shape[dim]

        def call(operator: Any, *arguments: Any, before: Any = node) -> Any:
            with graph.inserting_before(before):
                return graph.call_function(operator, arguments)

        is_from_end = call(aten.lt.Scalar, index, 0)
        from_end = call(aten.add.Tensor, index, size)
        place = call(aten.reshape.default, call(aten.where.self, is_from_end, from_end, index), [1])
        taken = call(aten.squeeze.dim, call(aten.index_select.default, x, dim, place), dim)
        taken.meta = dict(node.meta)
        node.replace_all_uses_with(taken)
        graph.erase_node(node)
    if found:
        graph.eliminate_dead_code()
        program.graph_module.recompile()


def use_views_of_aten(program: Any) -> None:
    """Put torch's own views in place of those of `prims`, in place: torch refuses to decompose them."""
    aten, prims = torch.ops.aten, torch.ops.prims
    own = {
        prims.view_of.default: aten.alias.default,
        prims.squeeze.default: aten.squeeze.dims,
    }
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in own:
            node.target = own[node.target]
            node.args, node.kwargs = (*node.args, *node.kwargs.values()), {}
    program.graph_module.recompile()


def block_diagonal(tensors: Sequence[Any]) -> Any:
    """Put each matrix between zeros."""
    if any(t.dim() != 2 for t in tensors):
        return NotImplemented
    width, left, rows = sum(t.shape[1] for t in tensors), 0, []
    for tensor in tensors:
        right = width - left - tensor.shape[1]
        rows.append(torch.constant_pad_nd(tensor, [left, right]))
        left += tensor.shape[1]
    return torch.cat(rows)


def lower_triangle(row: int, col: int, offset: int = 0, **options: Any) -> Any:
    """Return the places below a diagonal by row; torch computes them with square roots in f64."""
    counts = [min(max(index + offset + 1, 0), col) for index in range(row)]
    return _places([(index, 0, count) for index, count in enumerate(counts)], options)


def upper_triangle(row: int, col: int, offset: int = 0, **options: Any) -> Any:
    """Return the places above a diagonal, row by row."""
    starts = [min(max(index + offset, 0), col) for index in range(row)]
    return _places([(index, start, col) for index, start in enumerate(starts)], options)


def _places(rows: Sequence[tuple[int, int, int]], options: dict[str, Any]) -> Any:
    """Row and column of each place, for rows of (index, first column, end)."""
    options = {"dtype": options.get("dtype") or torch.int64, "device": options.get("device")}
    filled = [(index, start, end) for index, start, end in rows if start < end]
    if not filled:
        return torch.zeros(2, 0, **options)
    down = torch.cat([torch.full((end - start,), index, **options) for index, start, end in filled])
    across = torch.cat([torch.arange(start, end, **options) for _, start, end in filled])
    return torch.stack([down, across])


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Multiply a matrix of ones, where a row belongs to a bag, by the rows.

    The results are sums (mode 0) or means (mode 1).

    Besides the bags, torch returns the bag of each row, the size of each bag, and the largest rows of
    mode 2, which nothing but its own derivative uses.
    """
    if mode == 2 or not weight.is_floating_point() or indices.dim() != 1:
        return NotImplemented
    starts = offsets[:-1] if include_last_offset else offsets
    if indices.numel() * starts.numel() > _COMPARED:
        return NotImplemented
    places = torch.arange(indices.numel(), device=indices.device)
    bag = (starts.unsqueeze(0) <= places.unsqueeze(1)).to(starts.dtype).sum(1) - 1
    member = torch.arange(starts.numel(), device=bag.device).unsqueeze(1) == bag.unsqueeze(0)
    if padding_idx is not None and padding_idx >= 0:
        member = torch.logical_and(member, (indices != padding_idx).unsqueeze(0))
    parts = member.to(weight.dtype)
    sizes = parts.sum(1)
    if per_sample_weights is not None:
        parts = parts * per_sample_weights.unsqueeze(0)
    made = parts @ weight[indices]
    if mode == 1:
        made = made / sizes.clamp(min=1).unsqueeze(1)
    counts = sizes.to(indices.dtype)
    return made, bag, counts, counts.clone()


def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    """Scatter with indices that are the same in every row."""
    return torch.scatter(x, dim, _in_every_row(index, dim, source), source)


def _in_every_row(index: Any, dim: int, source: Any) -> Any:
    """Repeat the indices along one axis for every element of the source."""
    shape = [1] * source.dim()
    shape[dim] = index.numel()
    return index.reshape(shape).expand_as(source)


def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    """Add up at each position the elements with its index: TOSA's SCATTER takes each once."""
    return scatter_reduce(x, dim, index, source, "sum")


def scatter_with(x: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    """`scatter` with a sum or a product; the source may be one number."""
    if not isinstance(source, torch.Tensor):
        source = torch.full(index.shape, source, dtype=x.dtype, device=x.device)
    return scatter_reduce(x, dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


def index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Reduce into positions whose indices are the same in every row."""
    places = _in_every_row(index, dim, source)
    return scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def scatter_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Reduce at each position the elements with its index, and what it had before."""
    size, dim = x.shape[dim] if x.dim() else 1, dim % x.dim() if x.dim() else 0
    if not x.dim() or x.dtype == torch.bool or index.numel() * size > _COMPARED:
        return NotImplemented
    for axis in range(x.dim()):  # Elements beyond the index do not take part.
        source = source.narrow(axis, 0, index.shape[axis])
    index, source = index.movedim(dim, -1).unsqueeze(-1), source.movedim(dim, -1).unsqueeze(-1)
    hit = index == torch.arange(size, device=x.device)
    neutral = _neutral(reduce, source)
    chosen = torch.where(hit, source, neutral)

    def placed(reduced: Any, filler: int = 0) -> Any:
        reduced = reduced.to(x.dtype).movedim(-1, dim)
        axes = reversed(range(x.dim()))
        padding = [part for axis in axes for part in (0, x.shape[axis] - reduced.shape[axis])]
        return torch.constant_pad_nd(reduced, padding, filler) if any(padding) else reduced

    if reduce in ("sum", "mean"):
        made = placed(chosen.sum(-2))
        made = x + made if include_self else made
        if reduce == "sum" and include_self:
            return made
    else:
        join, along = _JOINED[reduce]
        made = placed(along(chosen, -2), int(reduce == "prod"))
        made = join(x, made) if include_self else made
    count = placed(hit.to(torch.int32).sum(-2))
    if reduce == "mean":
        divisor = count + 1 if include_self else torch.where(count > 0, count, 1)
        is_float = x.is_floating_point()
        made = made / divisor if is_float else torch.div(made, divisor, rounding_mode="floor")
    return torch.where(count > 0, made, x)


#: Reduction -> the function of two tensors, and the one along an axis.
_JOINED: Final = {
    "prod": (torch.mul, torch.prod),
    "amax": (torch.maximum, torch.amax),
    "amin": (torch.minimum, torch.amin),
}


def _neutral(reduce: str, source: Any) -> Any:
    """Return what a reduction may take besides elements of the source without another result."""
    if reduce not in ("amax", "amin"):
        return torch.full_like(source, int(reduce == "prod"))
    if source.is_floating_point():
        return torch.full_like(source, -math.inf if reduce == "amax" else math.inf)
    # Not the limit of the type, which is lost where 64 bits are narrowed.
    return (source.amin() if reduce == "amax" else source.amax()).expand_as(source)


def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Add the rows, by a product with a matrix of ones where an index is a position."""
    if not x.is_floating_point() and x.dim():
        return scatter_add(x, dim, _in_every_row(index, dim, source), source * alpha)
    if not x.dim() or index.numel() * x.shape[dim] > _COMPARED:
        return NotImplemented
    hit = torch.arange(x.shape[dim], device=x.device).unsqueeze(1) == index.reshape(1, -1)
    rows = source.movedim(dim, 0)
    added = hit.to(x.dtype) @ rows.reshape(rows.shape[0], -1)
    return x + alpha * added.reshape(x.movedim(dim, 0).shape).movedim(0, dim)


def index_put(
    x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    """`x[indices] = values` by a scatter of whole rows, or by a sum where they accumulate."""
    if any(index is not None and index.dtype == torch.bool for index in indices):
        return _masked_put(x, indices, values, accumulate)
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return NotImplemented  # With axes between them torch puts the indexed ones first.
    given = torch.broadcast_tensors(*(indices[axis] for axis in axes))
    rest = [axis for axis in range(x.dim()) if axis not in axes]
    front = x.permute(*axes, *rest)
    sizes, tail = [x.shape[axis] for axis in axes], [x.shape[axis] for axis in rest]
    place = torch.zeros_like(given[0])
    for index, size in zip(given, sizes, strict=True):
        place = place * size + torch.where(index < 0, index + size, index)
    # The indexed axes of the values lie where the first of those of x lies.
    before, after = tail[: axes[0]], tail[axes[0] :]
    wanted = torch.broadcast_to(values, [*before, *place.shape, *after])
    moved = wanted.permute(
        *range(len(before), len(before) + place.dim()),
        *range(len(before)),
        *range(len(before) + place.dim(), wanted.dim()),
    )
    count, width = place.numel(), math.prod(tail)
    table, rows = front.reshape(math.prod(sizes), width), moved.reshape(count, width)
    place = place.reshape(count)
    if accumulate:
        made = index_add(table, 0, place, rows)
        if made is NotImplemented:
            return NotImplemented
    elif count > table.shape[0]:
        made = _put_last(table, place, rows)
    elif values.numel() == 1 and place.numel() * table.shape[0] <= _COMPARED:
        hit = place.unsqueeze(0) == torch.arange(table.shape[0], device=x.device).unsqueeze(1)
        made = torch.where(_any(hit).unsqueeze(1), rows[:1].to(table.dtype), table)
    else:
        made = torch.scatter(table, 0, place.unsqueeze(1).expand(count, width), rows)
    order = [*axes, *rest]
    return made.reshape(front.shape).permute(*(order.index(axis) for axis in range(x.dim())))


def scatter_number(x: Any, dim: int, index: Any, number: Any) -> Any:
    """Put a number wherever an index is: SCATTER takes each index once."""
    size, dim = x.shape[dim] if x.dim() else 1, dim % x.dim() if x.dim() else 0
    if not x.dim() or not index.numel() or index.numel() * size > _COMPARED:
        return NotImplemented
    hit = index.movedim(dim, -1).unsqueeze(-1) == torch.arange(size, device=x.device)
    chosen = _any(hit.transpose(-1, -2)).movedim(-1, dim)
    pads = [p for axis in reversed(range(x.dim())) for p in (0, x.shape[axis] - chosen.shape[axis])]
    if any(pads):
        chosen = torch.constant_pad_nd(chosen.to(torch.int32), pads) > 0
    return torch.where(chosen, torch.full([1] * x.dim(), number, dtype=x.dtype), x)


def index_fill(x: Any, dim: int, index: Any, number: Any) -> Any:
    """Put a number in the rows of an index, of which several may be equal."""
    size = x.shape[dim] if x.dim() else 1
    if not x.dim() or not index.numel() or index.numel() * size > _COMPARED:
        return NotImplemented
    place = torch.where(index < 0, index + size, index).reshape(1, -1)
    chosen = _any(place == torch.arange(size, device=x.device).unsqueeze(1))
    if not isinstance(number, torch.Tensor):
        number = torch.full([1] * x.dim(), number, dtype=x.dtype)
    shape = [size if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    return torch.where(chosen.reshape(shape), number.to(x.dtype), x)


def _any(hit: Any) -> Any:
    """Return whether a row has a true element."""
    return hit.to(torch.int32).amax(-1) > 0


def _put_last(table: Any, place: Any, rows: Any) -> Any:
    """Put the last of the rows of each place: there are more than places, and SCATTER takes one."""
    size, count = table.shape[0], place.numel()
    hit = place.unsqueeze(0) == torch.arange(size, device=place.device).unsqueeze(1)
    last = torch.where(hit, torch.arange(count, device=place.device), -1).amax(1)
    return torch.where((last >= 0).unsqueeze(1), rows[last.clamp(min=0)], table)


def _fixed(size: Any) -> int:
    """Return a size that is known, -1 for one that depends on the data."""
    return size if isinstance(size, int) else -1


def _masked_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """`x[mask] = value` for one value, by a selection."""
    mask = indices[0]
    if mask is None or len(indices) != 1 or any(size != 1 for size in map(_fixed, values.shape)):
        return NotImplemented
    mask = mask.reshape([*mask.shape, *[1] * (x.dim() - mask.dim())])
    value = values.reshape([1] * x.dim()).to(x.dtype)
    return torch.where(mask, x + value if accumulate else value, x)


def search_sorted(
    boundaries: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Count the boundaries below each value."""
    if sorter is not None:
        return NotImplemented
    table = boundaries.unsqueeze(-2) if boundaries.dim() > 1 else boundaries
    value = values.unsqueeze(-1)
    below = table <= value if right or side == "right" else table < value
    return below.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def kth_value(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Take the last of the k smallest."""
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    found = torch.topk(x, k, dim, largest=False)
    places = (part.narrow(dim, k - 1, 1) for part in found)
    return tuple(part if keepdim else part.squeeze(dim) for part in places)


def median(x: Any, dim: int, keepdim: bool = False) -> Any:
    """Take the value in the middle, the smaller of two."""
    return kth_value(x, (x.shape[dim] + 1) // 2 if x.dim() else 1, dim, keepdim)


def median_of_all(x: Any) -> Any:
    """Take the value in the middle of all elements, the smaller of two."""
    return median(x.reshape(-1), 0)[0]


def histogram(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:  # noqa: A002
    """Compare the bin of each element with every bin."""
    if not x.is_floating_point() or x.numel() * bins > _COMPARED or min == max:
        return NotImplemented
    flat = x.reshape(-1)
    place = torch.floor((flat - min) / (max - min) * bins).clamp(max=bins - 1)
    inside = torch.logical_and(flat >= min, flat <= max)
    hit = place == torch.arange(bins, dtype=x.dtype, device=x.device).unsqueeze(1)
    return torch.logical_and(hit, inside).to(x.dtype).sum(1)
