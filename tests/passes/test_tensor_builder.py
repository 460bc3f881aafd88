"""What cannot be built leaves nothing behind, and is refused with a reason."""

from __future__ import annotations

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from convir.dialects.context import read_module
from convir.dialects.refusal import Refusal
from convir.passes.tensor_builder import TensorBuilder

TEXT = """
func.func @main(%a: tensor<2x3xf32>, %b: tensor<?x3xf32>) -> tensor<2x3xf32> {
  return %a : tensor<2x3xf32>
}
"""


def drafted(sizes: tuple[int, ...], *, valid: bool = True) -> tuple[SSAValue | Refusal, bool, bool]:
    """What is drafted of a reshape, whether the module is the same, and the rewriter untouched."""
    module = read_module(TEXT)
    before = str(module)
    function = next(iter(module.ops))
    block = function.regions[0].block
    returned = block.last_op
    assert returned is not None
    rewriter = PatternRewriter(returned)
    builder = TensorBuilder(rewriter, returned)

    def build() -> SSAValue:
        known = builder.uninitialised(f32, (4, 4))
        if not valid:
            return builder.insert(arith.AddfOp(known, block.args[1], result_type=known.type))
        return builder.reshape(block.args[0], sizes)

    return builder.drafted(build), str(module) == before, not rewriter.has_done_action


def test_what_is_built_stays() -> None:
    value, same, untouched = drafted((6,))
    assert isinstance(value, SSAValue)
    assert value.type == TensorType(f32, [6])
    assert isinstance(value.owner, tensor.CollapseShapeOp)
    assert (same, untouched) == (False, False)


def test_an_unprovable_reshape_leaves_nothing() -> None:
    value, *untouched = drafted((7,))
    assert value == Refusal("tensor<2x3xf32> is not provably reshaped to tensor<7xf32>")
    assert untouched == [True, True]


def test_an_invalid_op_leaves_nothing() -> None:
    value, *untouched = drafted((6,), valid=False)
    assert isinstance(value, Refusal)
    assert value.reason.startswith("arith.addf cannot be built: ")
    assert untouched == [True, True]
