"""Whether two pieces of IR say the same.

xDSL's `is_structurally_equivalent` does not compare the types of results: to it, windows of two
sizes are one where only a `tensor.empty` has the size, and so are roundings to f16 and to bf16. To
it, a block that is named before it stands in the text is another in every copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from xdsl.ir import Region

if TYPE_CHECKING:
    from xdsl.ir import Block, Operation, SSAValue

    _Partners: TypeAlias = "dict[SSAValue | Block, SSAValue | Block]"
    _Pairs: TypeAlias = "list[tuple[Operation, Operation]]"


def is_equivalent(one: Operation | Region, other: Operation | Region) -> bool:
    """Whether both say the same, whatever their values are called."""
    partners: _Partners = {}
    pairs: _Pairs = []
    if isinstance(one, Region) or isinstance(other, Region):
        if not isinstance(one, Region) or not isinstance(other, Region):
            return False
        alike = _pair_regions(one, other, partners, pairs)
    else:
        alike = _pair(one, other, partners, pairs)
    return alike and all(_read_the_same(a, b, partners) for a, b in pairs)


def _pair(one: Operation, other: Operation, partners: _Partners, pairs: _Pairs) -> bool:
    """Pair what both define, operands aside; False where that differs."""
    if (
        one.name != other.name
        or one.result_types != other.result_types
        or one.attributes != other.attributes
        or one.properties != other.properties
        or len(one.regions) != len(other.regions)
    ):
        return False
    pairs.append((one, other))
    partners.update(zip(one.results, other.results, strict=True))
    return all(
        _pair_regions(inner, same, partners, pairs)
        for inner, same in zip(one.regions, other.regions, strict=True)
    )


def _pair_regions(one: Region, other: Region, partners: _Partners, pairs: _Pairs) -> bool:
    blocks, others = list(one.blocks), list(other.blocks)
    if len(blocks) != len(others):
        return False
    for block, same in zip(blocks, others, strict=True):
        if [arg.type for arg in block.args] != [arg.type for arg in same.args]:
            return False
        partners[block] = same
        partners.update(zip(block.args, same.args, strict=True))
        ops, same_ops = list(block.ops), list(same.ops)
        if len(ops) != len(same_ops):
            return False
        if not all(_pair(a, b, partners, pairs) for a, b in zip(ops, same_ops, strict=True)):
            return False
    return True


def _read_the_same(one: Operation, other: Operation, partners: _Partners) -> bool:
    """Whether the operands and successors of one are the partners of the other's."""
    return [partners.get(value, value) for value in one.operands] == list(other.operands) and [
        partners.get(block, block) for block in one.successors
    ] == list(other.successors)
