"""Memory plans of random programs: nothing that is alive is overlapped, and nothing is wasted."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp

from convir.dialects.context import read_module
from convir.dialects.rt import ops as rt
from convir.lowering.buffers.plan_memory import aligned, plan_memory

pytestmark = pytest.mark.fast

SIZES = st.lists(st.integers(0, 1500), min_size=1, max_size=8)


@given(SIZES, st.data())
@settings(max_examples=150, deadline=None)
def test_live_buffers_do_not_overlap(sizes: list[int], data: st.DataObject) -> None:
    numbers = st.integers(0, len(sizes) - 1)
    order: list[int] = data.draw(st.lists(numbers, max_size=16))
    allocs = "".join(f"  %b{i} = memref.alloc() : memref<{n}xi8>\n" for i, n in enumerate(sizes))
    fills = "".join(f"  rt.fill 0 : i8 into %b{i} : memref<{sizes[i]}xi8>\n" for i in order)
    module = read_module(
        "func.func @main(%y: memref<1xi8>) attributes {rt.program} {\n"
        f"{allocs}{fills}  func.return\n}}"
    )
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    plan = plan_memory(function)
    assert len(plan.offsets) == len(sizes)
    for life, offset in plan.offsets:
        assert offset % rt.ARENA_ALIGNMENT == 0
        assert offset + life.size <= plan.peak
    for (a, at), (b, other) in combinations(plan.offsets, 2):
        if a.first <= b.last and b.first <= a.last:
            assert at + a.size <= other or other + b.size <= at
    assert max(map(aligned, sizes)) <= plan.peak <= sum(map(aligned, sizes)) == plan.total
    alive = [
        sum(aligned(life.size) for life, _ in plan.offsets if life.first <= p <= life.last)
        for p in range(len(sizes) + len(order))
    ]
    assert plan.peak >= max(alive)
