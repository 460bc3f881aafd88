"""What follows a contraction on tile registers is the same as on vectors.

Tile registers are models here; small integers make every sum exact.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tile_instructions import emulated_tiles
from xdsl.passes import PassPipeline

from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.host.launch import Argument, HostLaunch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.registry import plan_kernel
from convir.lowering.kernels.host.target import HOST, X86_64_V4_AMX, target
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.runtime.host.jit import AS_EMITTED, compile_ir

PROGRAM = """
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
!x = tensor<2x9x8x{c}xbf16>
!w = tensor<{k}x3x3x{d}xbf16>
!b = tensor<{k}xf32>
!y = tensor<2x9x8x{k}xbf16>
!s = tensor<2x9x8x{k}xf32>
func.func @main(%x: !x, %w: !w, %b: !b, %r: !y) -> !y {{
  %zero = arith.constant 0.0 : f32
  %init = arith.constant dense<0.0> : !s
  %sums = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) groups({groups})
            ins(%x, %w : !x, !w) outs(%init : !s)
  %e = tensor.empty() : !y
  %y = linalg.generic {{indexing_maps = [#all, affine_map<(n, h, w, k) -> (k)>, #all, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%sums, %b, %r : !s, !b, !y) outs(%e : !y) {{
  ^bb0(%a: f32, %bias: f32, %residual: bf16, %o: bf16):
    %t = arith.addf %a, %bias : f32
    %u = arith.maximumf %t, %zero : f32
    %v = arith.truncf %u : f32 to bf16
    %p = arith.addf %v, %residual : bf16
    linalg.yield %p : bf16
  }} -> !y
  return %y : !y
}}
"""


def _body(c: int, k: int, groups: int) -> KernelBody:
    """The kernel of a convolution with a bias, a maximum and a residual."""
    text = PROGRAM.format(c=c, k=k, d=c // groups, groups=groups)
    module = run(text, "default").module
    PassPipeline(lowering_passes("host")).apply(new_context(), module)
    (function,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    return KernelBody(function)


def _result(launch: HostLaunch, ir: str, inputs: list[Any], shape: tuple[int, ...]) -> Any:
    library = compile_ir(ir, exports=launch.entries, cpu=target(HOST), options=AS_EMITTED)
    result = np.full(shape, np.nan, ml_dtypes.bfloat16)
    own = {name: np.full(size, 0xFF, np.uint8) for name, size in launch.workspace.items()}
    for stage in (*launch.prepare, *launch.stages):
        arrays = [
            own[name]
            if not isinstance(name, Argument)
            else inputs[name.index]
            if name.place == "input"
            else result
            for name in stage.buffers
        ]
        arguments = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        kind(library.address(stage.entry))(ctypes.addressof(arguments), 0, stage.items)
    return result


@pytest.mark.parametrize(
    ("c", "k", "groups"), [(32, 48, 1), (20, 33, 1), (3, 40, 1), (64, 64, 2), (64, 96, 8)]
)
def test_results_are_those_of_vectors(c: int, k: int, groups: int) -> None:
    body = _body(c, k, groups)
    rng = np.random.default_rng(c)
    inputs = [
        rng.integers(-2, 3, shape).astype(dtype)
        for shape, dtype in (
            ((2, 9, 8, c), ml_dtypes.bfloat16),
            ((k, 3, 3, c // groups), ml_dtypes.bfloat16),
            ((k,), np.float32),
            ((2, 9, 8, k), ml_dtypes.bfloat16),
        )
    ]
    on_tiles = plan_kernel(body, "amx-implicit-gemm", target(X86_64_V4_AMX))
    on_vectors = plan_kernel(body, "implicit-gemm", target("x86-64"))
    assert isinstance(on_tiles, HostLaunch)
    assert isinstance(on_vectors, HostLaunch)
    assert "tdpbf16ps" in on_tiles.ir
    shape = (2, 9, 8, k)
    found = _result(on_tiles, emulated_tiles(on_tiles.ir), inputs, shape)
    expected = _result(on_vectors, on_vectors.ir, inputs, shape)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
    assert np.isfinite(found.astype(np.float32)).all()
