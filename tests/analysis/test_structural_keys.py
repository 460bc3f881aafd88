"""What is read of operations is read once for all whose regions compute the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FloatAttr, f32

from convir.analysis.structural_keys import (
    StructuralKeys,
    forget_bodies,
    once_for_equal_bodies,
)
from convir.dialects.context import parse_module

if TYPE_CHECKING:
    from xdsl.ir import Operation

pytestmark = pytest.mark.fast


def function(number: float, name: str = "f") -> func.FuncOp:
    module = parse_module(
        f"func.func @{name}(%x: f32) -> f32 {{\n%{name} = arith.constant {number:.1f} : f32\n"
        f"%y = arith.addf %x, %{name} : f32\nfunc.return %y : f32\n}}"
    )
    (found,) = module.ops
    assert isinstance(found, func.FuncOp)
    return found


def test_only_what_bodies_compute_and_arguments_decide_what_is_read() -> None:
    reads: list[tuple[Operation, int]] = []

    @once_for_equal_bodies
    def read(op: func.FuncOp, times: int) -> int:
        reads.append((op, times))
        return len(reads)

    first = function(1)
    assert [read(first, 1), read(function(1, "g"), 1), read(first.clone(), 1)] == [1, 1, 1]
    assert [read(function(2), 1), read(first, 2)] == [2, 3]
    constant = first.body.block.first_op
    assert isinstance(constant, arith.ConstantOp)
    constant.value = FloatAttr(2.0, f32)
    assert [read(first, 1), read(function(1), 1)] == [2, 1]
    forget_bodies()
    assert read(function(1), 1) == 4


def test_keys_of_different_bodies_are_never_equal_whatever_is_forgotten() -> None:
    first = StructuralKeys().of_regions(function(1))
    assert StructuralKeys().of_regions(function(1)) == first
    forget_bodies()
    second = StructuralKeys().of_regions(function(2))
    assert first != second
    assert StructuralKeys().of_regions(function(2)) == second
