"""Verifiers: what MLIR rejects is one error at the op, and what MLIR accepts is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ARGUMENTS = ", ".join(
    """
    %x: f32|%h: f16|%t: tensor<4xf32>|%t8: tensor<8xf32>|%u: tensor<4x6xf32>
    %v: tensor<1x4x6xf32>|%v6: tensor<6x4xf32>|%uu: tensor<4x4xf32>|%tn: tensor<4xindex>
    %d: tensor<?xf32>|%dd: tensor<?x?xf32>|%i8: i8|%j: i32|%n: index
    %z: tensor<0xf32>|%o: tensor<1x1xf32>|%s: tensor<f32>|%sh: tensor<2xi32>|%shd: tensor<?xi32>
    %ti: tensor<4xi8>|%tj: tensor<4xi32>|%b: i1|%c: tensor<4xi1>
    """.strip()
    .replace("\n", "|")
    .split("|")
)

OPS = Path(__file__).with_name("verified_ops.txt").read_text().splitlines()
"""One op a line, on the arguments above; right and wrong ones."""


STRICTER = [op for op in OPS if "] [0] :" in op or "] [-1] :" in op]
"""Strides that are not positive."""
LAXER = [op for op in OPS if "[0] [1] : tensor<0x" in op or "] [0] [1] : tensor<4xf32>" in op]
"""Slices without elements at any offset."""


def function_around(op: str) -> str:
    return f"func.func @f({ARGUMENTS}) {{\n  %0 = {op}\n  func.return\n}}"


def is_accepted(text: str) -> bool:
    try:
        read_module(text, "in.mlir")
    except DiagnosticError as error:
        message = str(error)
    else:
        return True
    assert message.startswith("in.mlir:2:"), message
    assert "\n" not in message
    return False


def test_verifiers_agree_with_mlir(iree_accepts: Callable[[Sequence[str]], list[bool]]):
    texts = [function_around(op) for op in OPS]
    ours = {op: is_accepted(text) for op, text in zip(OPS, texts, strict=True)}
    theirs = dict(zip(OPS, iree_accepts(texts), strict=True))
    assert sum(theirs.values()) > len(OPS) // 3
    differing = {op for op in OPS if ours[op] != theirs[op]}
    assert differing <= {*STRICTER, *LAXER}


@pytest.mark.parametrize("op", STRICTER)
def test_strides_are_positive(op: str):
    assert not is_accepted(function_around(op))


@pytest.mark.parametrize("op", LAXER)
def test_a_slice_without_elements_may_have_any_offset(op: str):
    assert is_accepted(function_around(op))
