"""The generated text of a kernel of halo tiles: the `Problem` struct and the named instance."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.epilogue import CPP_TYPES
from convir.lowering.kernels.cuda.epilogue_operands import operands_source
from convir.lowering.kernels.cuda.sizes import Sizes
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.layout import (
    block_columns,
    groups_of,
    layout_of,
    parts_of,
    phase_columns,
    phases_of_group,
    planes_of,
    shared_bytes,
    stage_bytes,
    tiles_of,
    used_groups,
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

    Its arguments are C, the operands of the epilogue, the batch, and the maps of C if its boxes are
    stored, of B, and of the planes of A.
    """
    images = Sizes.of({"images": problem.images})
    layout = layout_of(problem, config)
    maps = {plane.first: i for i, plane in enumerate(layout.planes)}
    groups, used = groups_of(problem, config), used_groups(problem, config)
    numbers = {
        "kFilterByInChannel": int(problem.filter_by_in_channel),
        "kInChannels": problem.in_channels,
        "kOutChannels": problem.out_channels,
        "kChunk": config.chunk,
        "kTaps": len(problem.taps),
        "kParts": parts_of(problem, config),
        "kSlices": len(layout.slices),
        "kBoxes": len(layout.boxes),
        "kPhases": len(problem.phases),
        "kGroups": groups,
        "kPhaseColumns": phase_columns(problem, config),
        "kRun": problem.run,
        "kRows": config.rows,
        "kCols": config.cols,
        "kLine": layout.line,
        "kStageBytes": stage_bytes(problem, config),
        "kSharedBytes": shared_bytes(problem, config),
        "kFusedZeroFills": 0,
        "kCellZeroFills": 0,
        "kZeroFills": 0,
    }
    axes, boxes = "[convir::wgmma::kMaxAxes]", "[kSlices][kBoxes]"
    absent = problem.matrices
    size = phases_of_group(problem, config)
    matrices = [
        (absent if matrix is None else matrix) if phase // size in has else -1
        for (_, of_tap), has in zip(problem.taps, used, strict=True)
        for phase, matrix in enumerate(of_tap)
    ]
    arrays = {
        "int shift[kTaps]": braced([tap.shift for tap in layout.taps]),
        "int pitch[kTaps]": braced([tap.group for tap in layout.taps]),
        "bool used[kTaps][kGroups]": braced(
            [braced([int(i in has) for i in range(groups)]) for has in used]
        ),
        "int start[kBoxes]": braced([box.start for box in layout.boxes]),
        "int pixels[kBoxes]": braced([prod(box.pixels) for box in layout.boxes]),
        f"int map{boxes}": braced(
            [braced([maps[plane.first] for plane in each]) for each in layout.slices]
        ),
        f"int at{boxes}[3]": braced(
            [braced([braced(plane.at) for plane in each]) for each in layout.slices]
        ),
        "int kTiles[3]": braced(tiles_of(problem, config)),
        f"int sizes{axes}": braced(of_image(problem.sizes, problem.images)),
        f"long long strides{axes}": braced(problem.strides),
        f"int phase_sizes[kPhases]{axes}": braced(
            [braced(of_image(sizes, problem.images)) for sizes, _ in problem.phases]
        ),
        "long long offsets[kPhases]": braced([offset for _, offset in problem.phases]),
    }
    names = [f"e{i}" for i in range(len(epilogue.operands))]
    planes = [f"a{i}" for i in range(len(maps))]
    results = planes_of(problem, config)
    given = [
        "Epilogue::Stored* c",
        *(
            f"const {CPP_TYPES[operand.type]}* {name}"
            for name, operand in zip(names, epilogue.operands, strict=True)
        ),
        *images.parameters,
        *(["const __grid_constant__ TensorMap planes"] if results.lines else []),
        "const __grid_constant__ TensorMap b",
        *(f"const __grid_constant__ TensorMap {name}" for name in planes),
    ]
    of_result = "&planes" if results.lines else "nullptr"
    handed = ["c", braced(names), "images", of_result, "b", *planes]
    values = (
        config.columns,
        block_columns(problem, config),
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
        + operands_source(problem.operands, epilogue, problem.channel_stride)
        + f"__constant__ const int matrices[] = {braced(matrices)};\n"
        "struct Problem {\n"
        f"  using Input = {CPP_TYPES[contraction.a.type]};\n"
        "  using Epilogue = ::Epilogue;\n"
        "  using Operands = ::Operands;\n"
        + "".join(f"  static constexpr int {name} = {n};\n" for name, n in numbers.items())
        + "".join(f"  static constexpr {name} = {text};\n" for name, text in arrays.items())
        + results.source
        + "  static __device__ int matrix(int i) { return matrices[i]; }\n"
        "};\n"
        f"using Config = convir::wgmma::HaloConfig<{', '.join(map(str, values))}>;\n"
        'extern "C" __global__ void '
        "__launch_bounds__(convir::wgmma::HaloKernel<Problem, Config>::kThreads, 1)\n"
        f"{SYMBOL}({', '.join(given)}) {{\n"
        f"  convir::wgmma::contract_halo<Problem, Config>({', '.join(handed)});\n"
        "}\n"
    )
