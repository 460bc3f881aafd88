"""The LLVM module of planar kernels: a function for each program, and an entry for each launch.

define internal void @planar(ptr %p0, i64 %s0, i64 %t0, …)      strides of rows and taps, bytes
define void @NAME(ptr %args, i64 %begin, i64 %end, i64 %worker)    passes those of one launch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import (
    I64,
    PTR,
    Function,
    Module,
    Value,
    integers,
    value,
)
from convir.lowering.llvm.contraction.row_kernel import KERNEL_PARAMETERS
from convir.lowering.llvm.contraction.scalars import Lanes
from convir.lowering.llvm.planar.stage_code import StageCode, Tile
from convir.lowering.llvm.planar.tiles import Frames
from convir.lowering.planar.program import CHUNK_FRAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.llvm.target import Target
    from convir.lowering.planar.program import Binding, PlanarProgram

_POINTER_BYTES = 8
_LINE_BYTES = 64


def planar_ir(launches: Mapping[str, tuple[PlanarProgram, Binding]], cpu: Target) -> str:
    """The LLVM assembly of launches by the names of their entries."""
    module, lanes = Module(), Lanes("f32", cpu)
    functions: dict[tuple[PlanarProgram, int], Function] = {}
    for name, (program, binding) in launches.items():
        key = program, binding.frames
        if key not in functions:
            functions[key] = module.add(
                _function(f"planar{len(functions)}", program, binding, lanes)
            )
        module.add(_entry(name, functions[key], binding, lanes))
    return module.text()


def _function(name: str, program: PlanarProgram, binding: Binding, lanes: Lanes) -> Function:
    parameters = [
        parameter
        for number in range(program.parameters)
        for parameter in ((PTR, f"p{number}"), (I64, f"s{number}"), (I64, f"t{number}"))
    ]
    f = Function(name, (*parameters, (I64, "begin"), (I64, "end")))
    division = Frames.of(binding.frames, lanes)
    begin: Value | int = 0
    whole: Value | int = division.whole
    end: Value | int = binding.frames
    if binding.chunks > 1:
        begin, end = f.argument("begin"), f.argument("end")
        whole = f.minimum(end, whole, "whole")
    stride = division.vectors * lanes.count * lanes.bytes
    temporaries = [
        f.stack(channels * stride, _LINE_BYTES, "temporary") for channels in program.temporaries
    ]
    code = StageCode(f, lanes, temporaries, stride)
    tile = division.vectors * lanes.count
    if division.whole == binding.frames == tile:
        for stage in program.stages:
            code.write(stage, Tile(value(0), division.vectors))
    elif division.whole:
        runs = binding.chunks == 1
        with f.loop("frames", begin, whole, tile, runs=runs) as loop:
            for stage in program.stages:
                code.write(stage, Tile(loop.index, division.vectors))
    if division.rest:
        with f.loop("rest", whole, end, lanes.count) as loop:
            left = f.splat(f.sub(end, loop.index), lanes.count, "left")
            active = f.compare("slt", integers(range(lanes.count)), left)
            for stage in program.stages:
                code.write(stage, Tile(loop.index, 1, active))
    return f


def _entry(name: str, function: Function, binding: Binding, lanes: Lanes) -> Function:
    f = Function(name, KERNEL_PARAMETERS, external=True)
    args = f.argument("args")
    pointers = [
        f.load(PTR, f.element(args, bound.argument, _POINTER_BYTES), _POINTER_BYTES, "array")
        for bound in binding.parameters
    ]
    with f.loop("item", f.argument("begin"), f.argument("end")) as loop:
        image = f.div(loop.index, binding.chunks, "image")
        begin = f.mul(f.rem(loop.index, binding.chunks), CHUNK_FRAMES, "begin")
        given: list[Value | int] = []
        for bound, pointer in zip(binding.parameters, pointers, strict=True):
            skipped = f.add(f.mul(image, bound.image_stride), bound.offset)
            given += [
                f.element(pointer, skipped, lanes.bytes),
                bound.row_stride * lanes.bytes,
                bound.reach * lanes.bytes,
            ]
        end = f.minimum(f.add(begin, CHUNK_FRAMES), binding.frames, "end")
        f.call(function, *given, begin, end)
    return f
