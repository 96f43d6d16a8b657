"""Finds what a call changes in its arguments and an exported program does not.

torch.export keeps what is written into tensors. It loses a tensor that takes the place of another in an
object or in a list, such as the keys of a cache that grows, unless the module returns it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tosa_convert.errors import fail


def refuse_lost_changes(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], where: str
) -> None:
    """Refuse a module that gives its arguments other tensors than it returns.

    It is called, on copies, if an argument is an object, a list or a dictionary; its state stays.
    """
    given = (tuple(arguments), dict(keywords))
    if not any(map(_can_change, (*given[0], *given[1].values()))):
        return
    before = {name: tensor.clone() for name, tensor in module.named_buffers()}
    own = copy.deepcopy(given)
    known = {id(leaf) for leaf in pytree.tree_leaves(own)}
    with torch.no_grad():
        results = module(*own[0], **own[1])
        for name, tensor in module.named_buffers():
            tensor.copy_(before[name])
    known |= {id(leaf) for leaf in pytree.tree_leaves(results)}
    lost = [
        pytree.keystr(path[1:])
        for path, leaf in pytree.tree_flatten_with_path(own)[0]
        if isinstance(leaf, torch.Tensor) and id(leaf) not in known
    ]
    if lost:
        message = (
            f"a call gives its arguments new tensors, which torch.export loses: {', '.join(lost)}"
        )
        hint = "let the module return them, or write into the tensors that are there"
        raise fail("not-lowered", where, message, hint)


def _can_change(argument: Any) -> bool:
    """Return whether an argument is more than tensors and constants in tuples."""
    if isinstance(argument, tuple):
        return any(map(_can_change, argument))
    return not isinstance(argument, torch.Tensor) and bool(
        pytree.tree_leaves(argument) != [argument]
    )
