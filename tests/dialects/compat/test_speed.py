"""Reading and verifying are no slower than xDSL's own, by CPU time on one generated module."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.parser import Parser

from convir.dialects.context import new_context, parse_module
from convir.dialects.diagnostics import verify

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = 64
FUNCTIONS = 3
REPETITIONS = 3

BLOCK = """
  %e{n} = tensor.empty() : tensor<64x64xf32>
  %f{n} = linalg.fill ins(%c : f32) outs(%e{n} : tensor<64x64xf32>) -> tensor<64x64xf32>
  %g{n} = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}}
      ins(%x : tensor<64x64xf32>) outs(%f{n} : tensor<64x64xf32>) {{
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  }} -> tensor<64x64xf32>
  %s{n} = tensor.extract_slice %g{n}[0, {n}] [64, 1] [1, 1] : tensor<64x64xf32> to tensor<64x1xf32>
"""


def module_text() -> str:
    body = "".join(BLOCK.format(n=n) for n in range(COLUMNS))
    return "".join(
        f"func.func @f{n}(%x: tensor<64x64xf32>, %c: f32) {{{body}  func.return\n}}\n"
        for n in range(FUNCTIONS)
    )


def least_seconds(act: Callable[[], object]) -> float:
    def seconds() -> float:
        start = time.process_time()
        act()
        return time.process_time() - start

    return min(seconds() for _ in range(REPETITIONS))


def test_parsing_is_no_slower_than_xdsl():
    text = module_text()
    stock = Context()
    for name, factory in get_all_dialects().items():
        stock.register_dialect(name, factory)
    ctx = new_context()
    ours = least_seconds(lambda: parse_module(text, ctx=ctx))
    theirs = least_seconds(lambda: Parser(stock, text).parse_module())
    assert ours < theirs


def test_verifying_is_no_slower_than_xdsl():
    module = parse_module(module_text())
    ours = least_seconds(lambda: verify(module))
    theirs = least_seconds(module.verify)
    assert ours < theirs
