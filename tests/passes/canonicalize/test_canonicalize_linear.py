"""How much work the cleaning passes do, counted: linear in the operations, never timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from convir.analysis.structural_keys import StructuralKeys
from convir.dialects.context import new_context, parse_module
from convir.passes.canonicalize.greedy import GreedyRewriter
from convir.passes.canonicalize.pass_ import CanonicalizePass
from convir.passes.canonicalize.patterns.slices import MAX_INSERTIONS
from convir.passes.cse import CsePass

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

LOOKS_PER_OP = 4
"""Two sweeps, and at most as many again for what a rewrite touched."""


def chain(length: int) -> str:
    """Each link is a slice of the last, twice, and an addition of nothing."""
    links = "".join(
        f"""
        %a{i} = tensor.extract_slice %a{i - 1}[0] [4] [1] : tensor<4xf32> to tensor<4xf32>
        %b{i} = tensor.extract_slice %a{i - 1}[1] [2] [1] : tensor<4xf32> to tensor<2xf32>
        %n{i} = arith.addi %n{i - 1}, %c0 : index"""
        for i in range(1, length + 1)
    )
    return f"""
      func.func @main(%a0: tensor<4xf32>, %n0: index) -> (tensor<4xf32>, index) {{
        %c0 = arith.constant 0 : index{links}
        return %a{length}, %n{length} : tensor<4xf32>, index
      }}"""


def scopes(length: int) -> str:
    """One scope after another, and in each something that is known outside of it."""
    each = "".join(
        f"""
        %x{i} = arith.addi %n, %k{i - 1} : index
        %k{i} = scf.if %c -> (index) {{
          %y = arith.addi %k{i - 1}, %n : index
          scf.yield %y : index
        }} else {{
          scf.yield %x{i} : index
        }}"""
        for i in range(1, length + 1)
    )
    return f"""
      func.func @main(%c: i1, %n: index, %k0: index) -> index {{{each}
        return %k{length} : index
      }}"""


def read(text: str) -> tuple[ModuleOp, int]:
    module = parse_module(text)
    return module, sum(1 for _ in module.walk())


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Operation]:
    """The operations that a method of `owner` is called with from now on."""
    method: Callable[..., object] = getattr(owner, name)
    seen: list[Operation] = []

    def counted(self: object, op: Operation, *rest: object) -> object:
        seen.append(op)
        return method(self, op, *rest)

    monkeypatch.setattr(owner, name, counted)
    return seen


@pytest.mark.parametrize("length", [10, 1000])
def test_canonicalize_looks_at_each_op_a_few_times(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, ops = read(chain(length))
    looks = count_calls(monkeypatch, GreedyRewriter, "_rewrite_op")
    CanonicalizePass().apply(new_context(), module)
    assert [op.name for op in module.walk()] == ["builtin.module", "func.func", "func.return"]
    assert len(looks) <= LOOKS_PER_OP * ops


@pytest.mark.parametrize("length", [10, 1000])
def test_cse_builds_one_key_for_an_op(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module, ops = read(scopes(length))
    keys = count_calls(monkeypatch, StructuralKeys, "without_regions")
    CsePass().apply(new_context(), module)
    assert len(keys) == len(set(keys)) <= ops
    assert sum(op.name == "arith.addi" for op in module.walk()) == length


def concatenation(parts: int) -> str:
    """Rows inserted one after another, of which the first one is read."""
    whole = f"tensor<{parts}x4xf32>"
    insertions = "".join(
        f"""
        %t{i + 1} = tensor.insert_slice %x into %t{i}[{i}, 0] [1, 4] [1, 1]
          : tensor<4xf32> into {whole}"""
        for i in range(parts)
    )
    return f"""
      func.func @main(%x: tensor<4xf32>, %t0: {whole}) -> tensor<4xf32> {{{insertions}
        %y = tensor.extract_slice %t{parts}[0, 0] [1, 4] [1, 1] : {whole} to tensor<4xf32>
        return %y : tensor<4xf32>
      }}"""


@pytest.mark.parametrize("beside", [0, -1, 1])
def test_a_slice_looks_through_a_bounded_number_of_insertions(beside: int) -> None:
    """Not rewritten, and looked at again in vain, because too many insertions are in between."""
    module = parse_module(concatenation(MAX_INSERTIONS + beside))
    for _ in range(2):
        CanonicalizePass().apply(new_context(), module)
        left = sum(op.name == "tensor.extract_slice" for op in module.walk())
        assert left == (beside > 0)
