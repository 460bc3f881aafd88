"""What stands for methods of xDSL's IR does as they do."""

from __future__ import annotations

from itertools import product

import pytest
from xdsl.dialects import arith, builtin, test
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType, i32
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, SSAValues

from convir.dialects import compat

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def installed() -> None:
    compat.install()


def leaf(*, results: int = 0) -> test.TestOp:
    return test.TestOp(result_types=[i32] * results)


def nested() -> ModuleOp:
    """Regions without blocks, blocks without ops, several of each, ops behind regions."""
    inner = test.TestOp(regions=[Region([Block([leaf()]), Block(), Block([leaf(), leaf()])])])
    outer = test.TestOp(regions=[Region(), Region(Block([leaf(), inner, leaf()])), Region(Block())])
    return ModuleOp([leaf(), outer, leaf()])


def walked(op: Operation, *, reverse: bool, region_first: bool) -> list[Operation]:
    """What a walk is, as xDSL says."""
    inside: list[Operation] = []
    for region in reversed(op.regions) if reverse else op.regions:
        for block in reversed(region.blocks) if reverse else region.blocks:
            for each in reversed(block.ops) if reverse else block.ops:
                inside += walked(each, reverse=reverse, region_first=region_first)
    return [*inside, op] if region_first else [op, *inside]


@pytest.mark.parametrize(("reverse", "region_first"), [*product((False, True), repeat=2)])
def test_walks_are_in_order(reverse: bool, region_first: bool) -> None:
    module = nested()
    expected = walked(module, reverse=reverse, region_first=region_first)
    assert list(module.walk(reverse=reverse, region_first=region_first)) == expected
    assert len(expected) == 10


def test_an_op_may_be_erased_when_it_is_walked() -> None:
    module = nested()
    for op in module.walk(region_first=True):
        if op is not module:
            op.detach()
            op.erase()
    assert list(module.walk()) == [module]
    module = ModuleOp([leaf(), leaf(), leaf()])
    for op in module.body.block.ops:
        op.detach()
    assert not module.body.block.ops


def test_regions_that_an_op_gets_when_it_is_walked_are_walked() -> None:
    module = ModuleOp([test.TestOp(regions=[Region()])])
    (op,) = module.ops
    names: list[Operation] = []
    for each in module.walk():
        names.append(each)
        if each is op:
            each.regions[0].add_block(Block([leaf()]))
    assert len(names) == 3


def test_ops_blocks_and_values_are_equal_to_themselves_alone() -> None:
    for some, other in (
        (leaf(), leaf()),
        (Block(), Block()),
        (leaf(results=1).results[0], leaf(results=1).results[0]),
    ):
        assert some == next(iter([some]))
        assert some != other
        assert len({some, other, some}) == 2


def test_values_of_ops() -> None:
    one, two = leaf(results=1), leaf(results=2)
    assert SSAValue.get(one) is one.results[0]
    assert SSAValue.get(one.results[0], type=builtin.IntegerType) is one.results[0]
    with pytest.raises(ValueError, match="single result"):
        SSAValue.get(two)
    with pytest.raises(ValueError, match="Expected"):
        SSAValue.get(one.results[0], type=builtin.IndexType)


def test_wrong_numbers_of_arguments_are_errors() -> None:
    value = leaf(results=1).results[0]
    with pytest.raises(ValueError, match="Expected 1 operand, but got 2"):
        builtin.UnrealizedConversionCastOp.build(operands=[value, value], result_types=[[i32]])


def test_attributes_of_no_kind_are_refused() -> None:
    class Neither(Attribute):
        name = "neither"

    with pytest.raises(TypeError, match="Data or ParametrizedAttribute"):
        Neither()


def test_names_stand_for_the_operands_that_an_op_has_now() -> None:
    x, y = test.TestOp(result_types=[i32, i32]).results
    total = arith.AddiOp(x, y)
    assert (total.lhs, total.rhs, total.result.owner) == (x, y, total)
    total.operands[0] = y
    assert total.lhs is y
    fill = FillOp([x], [], [])
    assert isinstance(fill.inputs, SSAValues)
    assert (list(fill.inputs), list(fill.outputs)) == ([x], [])
    assert (fill.inputs[-1], fill.inputs[:0]) == (x, ())


def test_neighbours_and_parents_are_looked_up_each_time() -> None:
    first, second = leaf(results=1), leaf()
    block = Block([first, second])
    region = Region([block, Block()])
    assert (block.first_op, block.last_op, first.next_op) == (first, second, second)
    assert (second.prev_op, first.parent_node, block.parent_node) == (first, block, region)
    assert (region.first_block, region.last_block) == (block, block.next_block)
    first.results[0].name_hint = "x"
    assert first.results[0].name_hint == "x"
    first.detach()
    assert (block.first_op, first.parent_node, first.next_op) == (second, None, None)


def test_what_an_attribute_says_of_itself_is_no_part_of_it() -> None:
    one, other = (TensorType(i32, [2, 3]) for _ in range(2))
    assert one.get_shape() == (2, 3)
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    sizes = DenseArrayBase.from_list(i32, [4, 5])
    assert sizes.get_values() == sizes.get_values() == (4, 5)
    assert DenseArrayBase.from_list(i32, []).get_values() == ()
