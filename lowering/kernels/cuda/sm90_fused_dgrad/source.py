"""The generated text of a kernel of fused phases: the `Problem` struct and the named instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.epilogue_operands import operands_source
from convir.lowering.kernels.cuda.result_planes import NO_PLANES
from convir.lowering.kernels.cuda.sizes import Sizes, value_of
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import MAX_SPATIAL, of_image
from convir.lowering.kernels.cuda.sm90_implicit_gemm.source import braced

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_fused_dgrad.config import FusedDgradConfig
    from convir.lowering.kernels.cuda.sm90_fused_dgrad.problem import FusedDgradProblem

SYMBOL = "sm90_fused_dgrad"


def source_of(
    contraction: Contraction,
    epilogue: Epilogue,
    problem: FusedDgradProblem,
    config: FusedDgradConfig,
    shared_bytes: int,
) -> str:
    """CUDA C++ with the kernel `SYMBOL`.

    Its arguments are C, the operands of the epilogue, `problem.images` if launches hand it over,
    and the maps of B and of A.
    """
    images = Sizes.of({"images": problem.images})
    slides = problem.rows.slides
    blank = (0,) * (MAX_SPATIAL - len(slides))
    numbers = {
        "kSpatial": len(slides),
        "kFilterByInChannel": int(problem.filter_by_in_channel),
        "kInChannels": problem.in_channels,
        "kOutChannels": problem.out_channels,
        "kPhaseColumns": problem.out_channels,
        "kPhases": len(problem.phases),
        "kShifts": len(problem.shifts),
        "kPixels": problem.pixels // value_of(problem.images),
        "kRun": problem.run,
        "kSharedBytes": shared_bytes,
    }
    phases, shifts, axes = "[kPhases]", "[kShifts]", "[convir::wgmma::kMaxAxes]"
    spatial = "[convir::wgmma::kMaxSpatial]"
    arrays = {
        f"int matrix{shifts}{phases}": braced([braced(row) for row in problem.matrices]),
        f"int sizes{axes}": braced(of_image(problem.sizes, problem.images)),
        f"int corner{spatial}": braced([*(slide.corner for slide in slides), *blank]),
        f"int steps{spatial}": braced([*(slide.step for slide in slides), *blank]),
        f"long long strides{axes}": braced(problem.strides),
        f"int phase_sizes{phases}{axes}": braced(
            [braced(of_image(sizes, problem.images)) for sizes, _ in problem.phases]
        ),
        f"long long offsets{phases}": braced([offset for _, offset in problem.phases]),
    }
    taps = "".join(f"    {braced([braced(shift), 0])},\n" for shift in problem.shifts)
    used = [matrix for row in problem.matrices for matrix in row if matrix >= 0]
    names = [f"e{i}" for i in range(len(epilogue.operands))]
    given = [
        "Epilogue::Stored* c",
        *(
            f"const {CPP_TYPES[operand.type]}* {name}"
            for name, operand in zip(names, epilogue.operands, strict=True)
        ),
        *images.parameters,
        "const __grid_constant__ TensorMap b",
        "const __grid_constant__ TensorMap a",
    ]
    handed = ["c", braced(names), *(images.scalars or ["1"]), "b", "a"]
    instance = f"convir::wgmma::FusedDgradConfig<{config.stages}, {config.store_channels}>"
    return (
        f"// {config}\n"
        '#include "sm90_fused_dgrad/kernel.cuh"\n'
        "using convir::hopper::TensorMap;\n"
        + epilogue.source
        + operands_source(problem.operands, epilogue)
        + f"__constant__ const convir::wgmma::Tap shifts[] = {{\n{taps}}};\n"
        f"__constant__ const int matrices[] = {braced(used)};\n"
        "struct Problem {\n"
        f"  using Input = {CPP_TYPES[contraction.a.type]};\n"
        "  using Epilogue = ::Epilogue;\n"
        "  using Operands = ::Operands;\n"
        + NO_PLANES.source
        + "".join(f"  static constexpr int {name} = {n};\n" for name, n in numbers.items())
        + "".join(f"  static constexpr {name} = {text};\n" for name, text in arrays.items())
        + "  static __device__ const convir::wgmma::Tap& shift(int i) { return shifts[i]; }\n"
        "  static __device__ int used(int i) { return matrices[i]; }\n"
        "};\n"
        f"using Config = {instance};\n"
        'extern "C" __global__ void '
        "__launch_bounds__(convir::wgmma::FusedDgradKernel<Problem, Config>::kThreads, 1)\n"
        f"{SYMBOL}({', '.join(given)}) {{\n"
        f"  convir::wgmma::contract_fused_dgrad<Problem, Config>({', '.join(handed)});\n"
        "}\n"
    )
