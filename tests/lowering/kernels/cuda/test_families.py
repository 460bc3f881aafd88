"""What templates are given: configs as text, contractions with what follows them, and plans."""

from __future__ import annotations

import pytest
from conv_lines import NHWC
from cuda_contractions import contraction_of_line, kernels_in

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.cuda.sm80_implicit_gemm.candidates import plan
from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import (
    Sm80ImplicitGemmConfig,
    refusal,
)
from convir.lowering.kernels.cuda.sm80_implicit_gemm.launch import kernels
from convir.lowering.kernels.registry import choose, plan_kernel
from convir.lowering.kernels.target import DEFAULT_TARGET, target_of

DENSE = f"convfp16 -n 8 -c 64 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}"
STRIDED = f"convfp16 -n 8 -c 64 -H 28 -W 28 -k 128 -y 1 -x 1 -u 2 -v 2 -F 2 {NHWC}"
WEIGHTS = f"convfp16 -n 32 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"

CHAIN = """
func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %b: tensor<TYPE>)
    -> tensor<64x48xf32> {
  %zeros = arith.constant dense<0.0> : tensor<64x48xf32>
  %e = tensor.empty() : tensor<64x48xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<64x32xf32>, tensor<32x48xf32>)
    outs(%zeros : tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m,n) -> (m,n)>, affine_map<(m,n) -> (MAP)>,
      affine_map<(m,n) -> (m,n)>], iterator_types = ["parallel","parallel"]}
      ins(%0, %b : tensor<64x48xf32>, tensor<TYPE>) outs(%e : tensor<64x48xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %2 = arith.addf %a, %c : f32
    linalg.yield %2 : f32
  } -> tensor<64x48xf32>
  func.return %1 : tensor<64x48xf32>
}
"""


def chain(kind: str, indices: str) -> ContractionProblem | Refusal:
    (callee,) = kernels_in(read_module(CHAIN.replace("TYPE", kind).replace("MAP", indices)))
    return read_problem(callee)


@pytest.mark.parametrize(
    "text",
    [
        "sm80_implicit_gemm",
        "sm80_implicit_gemm 64x64 stages=4 warps=2x2",
        "sm80_implicit_gemm 64x64x32 warps=2x2",
        "sm80_implicit_gemm 64x64x32 stages=4 warps=2x2 color=red",
        "sm80_implicit_gemm 64x64x32 stages=4 stages=5 warps=2x2",
        "sm80_implicit_gemm 64x64x32 stages=4 warps=2",
        "sm90_implicit_gemm 64x64x32 stages=4 warps=2x2",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"written|config|warps=2: AxB"):
        Sm80ImplicitGemmConfig.parse(text)


@pytest.mark.parametrize(
    ("kind", "indices", "row", "column"),
    [
        ("48xf32", "n", (0,), 1),
        ("64xf32", "m", (1,), 0),
        ("48x64xf32", "n, m", (1,), 64),
        ("64x48xf32", "m, n", (48,), 1),
    ],
)
def test_operands_of_an_epilogue_lie_along_rows_and_columns(
    kind: str, indices: str, row: tuple[int, ...], column: int
) -> None:
    found = chain(kind, indices)
    assert isinstance(found, ContractionProblem)
    (operand,) = found.epilogue.operands
    assert operand.phases[0].axis_strides == row
    assert operand.out_channel_stride == column
    assert operand.follows_result == (indices == "m, n")
    assert found.place(Pointer("epilogue", 0)) == Pointer("input", operand.argument)


def test_epilogues_that_cannot_be_fused_say_why() -> None:
    text = CHAIN.replace("TYPE", "48xf32").replace("MAP", "n")
    refused = read_problem(kernels_in(read_module(_transposing(text)))[0])
    assert isinstance(refused, Refusal)
    assert refused.reason == "its epilogue rearranges elements"


def test_epilogues_that_depend_on_the_position_are_refused() -> None:
    add = "    %2 = arith.addf %a, %c : f32\n"
    position = """
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %f = arith.sitofp %j : i32 to f32
    %2 = arith.addf %a, %f : f32
"""
    text = CHAIN.replace(add, position).replace("TYPE", "48xf32").replace("MAP", "n")
    refused = read_problem(kernels_in(read_module(text))[0])
    assert isinstance(refused, Refusal)
    assert refused.reason == "its epilogue holds linalg.index"


def _transposing(text: str) -> str:
    """The chain with its sums read as columns, in one region by hand; the result is 48 x 64."""
    before, after = text.split("  %1 = ")
    before = before.replace("  %0 = ", "  %k = kernel.region {\n  %0 = ")
    after = after.replace("affine_map<(m,n) -> (m,n)>", "affine_map<(m,n) -> (n,m)>", 1)
    after = after.replace("affine_map<(m,n) -> (n)>", "affine_map<(m,n) -> (m)>")
    after = after.replace("outs(%e : tensor<64x48xf32>)", "outs(%e : tensor<48x64xf32>)")
    after = after.replace("} -> tensor<64x48xf32>", "} -> tensor<48x64xf32>")
    after = after.replace(
        "  func.return %1 : tensor<64x48xf32>",
        "  kernel.yield %1 : tensor<48x64xf32>\n  } -> tensor<48x64xf32>\n"
        "  func.return %k : tensor<48x64xf32>",
    )
    before = before.replace("-> tensor<64x48xf32> {", "-> tensor<48x64xf32> {")
    before = before.replace(
        "%e = tensor.empty() : tensor<64x48xf32>", "%e = tensor.empty() : tensor<48x64xf32>"
    )
    return f"{before}  %1 = {after}"


def test_every_position_of_a_strided_gradient_has_a_phase() -> None:
    spec = contraction_of_line(STRIDED).contraction
    assert [phase.taps for phase in spec.phases] == [1, 0, 0, 0]
    assert sum(phase.pixels for phase in spec.phases) == 8 * 28 * 28


def test_one_launch_or_two() -> None:
    for line, launches in ((DENSE, 1), (STRIDED, 1), (WEIGHTS, 2)):
        found = contraction_of_line(line)
        configs = plan(found.contraction, found.epilogue, DEFAULT_TARGET)
        assert isinstance(configs, tuple)
        launched = kernels(found.contraction, found.epilogue, configs[0], DEFAULT_TARGET)
        assert isinstance(launched, KernelPlan)
        assert len(launched.kernels) == launches
        assert len(launched.workspace) == launches - 1


def test_plans_are_legal_on_small_gpus() -> None:
    small = target_of("sm_86", multiprocessors=28, shared_bytes=99 << 10)
    for line in (DENSE, STRIDED, WEIGHTS):
        found = contraction_of_line(line)
        configs = plan(found.contraction, found.epilogue, small)
        assert isinstance(configs, tuple)
        for config in configs:
            assert refusal(found.contraction, found.epilogue, config, small) is None


def test_illegal_configs_say_why() -> None:
    found = contraction_of_line(DENSE)
    for text, why in (
        ("sm80_implicit_gemm 64x64x32 stages=4 threads=1x1", "do not share"),
        ("sm80_implicit_gemm 100x64x32 stages=4 warps=2x2", "is not divided"),
        ("sm80_implicit_gemm 256x256x32 stages=4 warps=2x2", "accumulators a thread"),
        ("sm80_implicit_gemm 128x128x64 stages=16 warps=2x4", "shared memory"),
    ):
        config = Sm80ImplicitGemmConfig.parse(text)
        refused = refusal(found.contraction, found.epilogue, config, DEFAULT_TARGET)
        assert refused is not None
        assert why in refused.reason


def test_kernels_of_configs_by_hand() -> None:
    (callee,) = kernels_in(read_module(CHAIN.replace("TYPE", "48xf32").replace("MAP", "n")))
    assert isinstance(
        plan_kernel(
            callee, str(getattr(choose(callee, DEFAULT_TARGET), "config", "")), DEFAULT_TARGET
        ),
        KernelPlan,
    )
    for text, why in (
        ("sm80_implicit_gemm 64x64x32", "not a config of sm80_implicit_gemm"),
        ("mine", "no family"),
        ("sm80_implicit_gemm 64x64x16 stages=4 warps=2x2", "do not multiply f32"),
    ):
        refused = plan_kernel(callee, text, DEFAULT_TARGET)
        assert isinstance(refused, Refusal)
        assert why in refused.reason


STEP = """
  %1 = linalg.generic {indexing_maps = [affine_map<(m,n) -> (m,n)>, affine_map<(m,n) -> (m,n)>],
      iterator_types = ["parallel","parallel"]}
      ins(%0 : tensor<64x48xf32>) outs(%e : tensor<64x48xTYPE>) {
  ^bb0(%a: f32, %o: TYPE):
BODY  } -> tensor<64x48xTYPE>
"""


@pytest.mark.parametrize(
    ("element", "body", "rounds_only", "zero_fills_are_zero_sums"),
    [
        ("f32", "linalg.yield %a : f32", True, True),
        ("f16", "%2 = arith.truncf %a : f32 to f16\n linalg.yield %2 : f16", True, True),
        (
            "f32",
            (
                "%2 = arith.truncf %a : f32 to f16\n %3 = arith.extf %2 : f16 to f32\n"
                "linalg.yield %3 : f32"
            ),
            False,
            True,
        ),
        ("f32", "%2 = arith.addf %a, %a : f32\n linalg.yield %2 : f32", False, False),
        ("f32", "%2 = arith.constant 1.0 : f32\n linalg.yield %2 : f32", False, False),
        (
            "f16",
            (
                "%2 = arith.constant 1.0 : f32\n %3 = arith.truncf %2 : f32 to f16\n"
                "linalg.yield %3 : f16"
            ),
            False,
            False,
        ),
    ],
)
def test_epilogues_know_whether_they_only_round(
    element: str, body: str, rounds_only: bool, zero_fills_are_zero_sums: bool
) -> None:
    before, after = CHAIN.split("  %1 = ")
    step = STEP.replace("TYPE", element).replace("BODY", f"    {body}\n")
    behind = after.partition("} -> tensor<64x48xf32>\n")[2]
    scatter = (
        "  %h = arith.constant dense<0.0> : tensor<128x48xf32>\n"
        "  %s = tensor.insert_slice %1 into %h[0, 0] [64, 48] [2, 1]"
        " : tensor<64x48xf32> into tensor<128x48xf32>\n"
    ).replace("f32", element)
    text = f"{before}{step}{scatter}{behind}".replace("TYPE", "48xf32")
    text = text.replace("return %1 : tensor<64x48xf32>", f"return %s : tensor<128x48x{element}>")
    text = text.replace("-> tensor<64x48xf32> {", f"-> tensor<128x48x{element}> {{", 1)
    text = text.replace("%e = tensor.empty() : tensor<64x48xf32>",
                        f"%e = tensor.empty() : tensor<64x48x{element}>")  # fmt: skip
    (callee,) = kernels_in(read_module(text))
    found = read_problem(callee)
    assert isinstance(found, ContractionProblem)
    assert found.epilogue.rounds_only == rounds_only
    assert found.epilogue.zero_fills_are_zero_sums == zero_fills_are_zero_sums


def test_a_logistic_function_that_is_stored_as_it_is() -> None:
    """All bits of it are kept, though no op rounds it to less than f32."""
    steps = """    %one = arith.constant 1.0 : f32
    %n = arith.negf %a : f32
    %x2 = math.exp %n : f32
    %d = arith.addf %x2, %one : f32
    %2 = arith.divf %one, %d : f32
"""
    text = CHAIN.replace("    %2 = arith.addf %a, %c : f32\n", steps)
    (callee,) = kernels_in(read_module(text.replace("TYPE", "48xf32").replace("MAP", "n")))
    found = read_problem(callee)
    assert isinstance(found, ContractionProblem)
    assert "convir::inverse_from_one(" in found.epilogue.body
