"""Which block of a region every path to another block goes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Block, Region


def dominator_tree(region: Region) -> dict[Block, list[Block]]:
    """The blocks that each block immediately dominates; blocks that no path reaches are left out.

    The iterative algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm").
    """
    order = _reverse_postorder(region)
    if not order:
        return {}
    number = {block: index for index, block in enumerate(order)}
    predecessors: list[list[int]] = [[] for _ in order]
    for block in order:
        for successor in _successors(block):
            predecessors[number[successor]].append(number[block])
    dominator: list[int] = [0] + [-1] * (len(order) - 1)
    changed = True
    while changed:
        changed = False
        for index in range(1, len(order)):
            known = [p for p in predecessors[index] if dominator[p] >= 0]
            nearest = known[0]
            for other in known[1:]:
                nearest = _common(dominator, nearest, other)
            if dominator[index] != nearest:
                dominator[index] = nearest
                changed = True
    tree: dict[Block, list[Block]] = {block: [] for block in order}
    for index in range(1, len(order)):
        tree[order[dominator[index]]].append(order[index])
    return tree


def _common(dominator: list[int], left: int, right: int) -> int:
    while left != right:
        while left > right:
            left = dominator[left]
        while right > left:
            right = dominator[right]
    return left


def _successors(block: Block) -> tuple[Block, ...]:
    last = block.last_op
    return () if last is None else tuple(last.successors)


def _reverse_postorder(region: Region) -> list[Block]:
    entry = region.blocks.first
    if entry is None:
        return []
    postorder: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            postorder.append(block)
            stack.pop()
            continue
        seen.add(following)
        stack.append((following, iter(_successors(following))))
    return postorder[::-1]
