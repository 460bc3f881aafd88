"""The generated text of a kernel of halo tiles: the `Problem` struct and the named instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.epilogue_operands import operands_source
from convir.lowering.kernels.cuda.sizes import Sizes
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.layout import (
    Layout,
    block_columns,
    shared_bytes,
    stage_bytes,
    tiles_of,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import of_image
from convir.lowering.kernels.cuda.sm90_implicit_gemm.source import braced

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import HaloConfig
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import HaloProblem

SYMBOL = "sm90_halo_implicit_gemm"


def source_of(
    contraction: Contraction, epilogue: Epilogue, problem: HaloProblem, config: HaloConfig
) -> str:
    """CUDA C++ with the kernel `SYMBOL`.

    Its arguments are C, the operands of the epilogue, the batch, and the maps of B and of A.
    """
    images = Sizes.of({"images": problem.images})
    layout = Layout.of(problem, config)
    numbers = {
        "kFilterByInChannel": int(problem.filter_by_in_channel),
        "kInChannels": problem.in_channels,
        "kOutChannels": problem.out_channels,
        "kChunk": config.chunk,
        "kTaps": len(problem.taps),
        "kRows": config.rows,
        "kCols": config.cols,
        "kLine": layout.line,
        "kGroup": layout.group,
        "kStageBytes": stage_bytes(problem, config),
        "kSharedBytes": shared_bytes(problem, config),
        "kFusedZeroFills": 0,
        "kCellZeroFills": 0,
        "kZeroFills": 0,
    }
    arrays = {
        "int shift[kTaps]": braced([layout.shift(at) for at, _ in problem.taps]),
        "int kBox[3]": braced(layout.box),
        "int kTiles[3]": braced(tiles_of(problem, config)),
        "int sizes[convir::wgmma::kMaxAxes]": braced(of_image(problem.sizes, problem.images)),
        "int corner[convir::wgmma::kMaxSpatial]": braced(problem.corner),
        "long long strides[convir::wgmma::kMaxAxes]": braced(problem.strides),
        "long long kOffset": str(problem.offset),
    }
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
    handed = ["c", braced(names), "images", "b", "a"]
    values = (
        config.columns,
        block_columns(config),
        layout.tiles,
        config.stages,
        config.consumers,
        config.store_channels,
        config.consumer_registers,
    )
    return (
        f"// {config}\n"
        '#include "sm90_halo_implicit_gemm/kernel.cuh"\n'
        "using convir::hopper::TensorMap;\n"
        + epilogue.source
        + operands_source(problem.operands, epilogue)
        + f"__constant__ const int matrices[] = {braced([i for _, i in problem.taps])};\n"
        "struct Problem {\n"
        f"  using Input = {CPP_TYPES[contraction.a.type]};\n"
        "  using Epilogue = ::Epilogue;\n"
        "  using Operands = ::Operands;\n"
        + "".join(f"  static constexpr int {name} = {n};\n" for name, n in numbers.items())
        + "".join(f"  static constexpr {name} = {text};\n" for name, text in arrays.items())
        + "  static __device__ int matrix(int i) { return matrices[i]; }\n"
        "};\n"
        f"using Config = convir::wgmma::HaloConfig<{', '.join(map(str, values))}>;\n"
        'extern "C" __global__ void '
        "__launch_bounds__(convir::wgmma::HaloKernel<Problem, Config>::kThreads, 1)\n"
        f"{SYMBOL}({', '.join(given)}) {{\n"
        f"  convir::wgmma::contract_halo<Problem, Config>({', '.join(handed)});\n"
        "}\n"
    )
