"""The LLVM module of planar kernels: a function for each program, and an entry for each launch.

define internal void @planar(ptr %p0, i64 %s0, i64 %t0, …)      strides of rows and taps, bytes,
                                                                  where launches differ in them
define void @NAME(ptr %args, i64 %begin, i64 %end, i64 %worker)    passes those of one launch
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from convir.lowering.bodies.planar.program import CHUNK_FRAMES
from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
    integers,
    value,
)
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.fused_chain.config import Frames, SumTile, rule
from convir.lowering.kernels.host.fused_chain.stage_code import StageCode, Tile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.lowering.bodies.planar.program import Binding, Bound, PlanarProgram
    from convir.lowering.kernels.host.target import CpuTarget


def planar_ir(
    launches: Mapping[str, tuple[PlanarProgram, Binding]],
    cpu: CpuTarget,
    tiles: Mapping[str, SumTile] = MappingProxyType({}),
) -> str:
    """The LLVM assembly of launches by the names of their entries.

    Args:
        launches: a program each, and what its parameters are.
        cpu: what code is for.
        tiles: what is summed in registers, where the heuristic does not choose it.
    """
    module, lanes = Module(), Lanes("f32", cpu)
    alike: dict[tuple[PlanarProgram, int, SumTile], dict[str, Binding]] = {}
    for name, (program, binding) in launches.items():
        key = program, binding.frames, tiles.get(name, rule(cpu))
        alike.setdefault(key, {})[name] = binding
    for number, ((program, _, tile), bindings) in enumerate(alike.items()):
        bound = zip(*(binding.parameters for binding in bindings.values()), strict=True)
        distances = [_Distances.of(i, places, lanes.bytes) for i, places in enumerate(bound)]
        first = next(iter(bindings.values()))
        function = module.add(_function(f"planar{number}", program, first, distances, lanes, tile))
        for name, binding in bindings.items():
            module.add(_entry(name, function, binding, distances, lanes))
    return module.text()


@dataclass(frozen=True)
class _Distances:
    """Bytes between rows, and between taps, of a parameter: of all launches, or arguments."""

    row: Value | int
    tap: Value | int

    @staticmethod
    def of(number: int, bound: Sequence[Bound], element_bytes: int) -> _Distances:
        """Those of a parameter, which is bound so by each launch."""
        rows, taps = {b.row_stride for b in bound}, {b.reach for b in bound}
        return _Distances(
            rows.pop() * element_bytes if len(rows) == 1 else Value(I64, f"%s{number}"),
            taps.pop() * element_bytes if len(taps) == 1 else Value(I64, f"%t{number}"),
        )

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """Type and name of those that are arguments."""
        return [
            (x.type, x.text.removeprefix("%")) for x in (self.row, self.tap) if isinstance(x, Value)
        ]

    def given(self, bound: Bound, element_bytes: int) -> list[int]:
        """What one launch passes for the arguments."""
        both = ((self.row, bound.row_stride), (self.tap, bound.reach))
        return [number * element_bytes for x, number in both if isinstance(x, Value)]


def _function(
    name: str,
    program: PlanarProgram,
    binding: Binding,
    distances: Sequence[_Distances],
    lanes: Lanes,
    sums: SumTile,
) -> Function:
    parameters = [
        parameter
        for number, distance in enumerate(distances)
        for parameter in ((PTR, f"p{number}"), *distance.arguments)
    ]
    f = Function(name, (*parameters, (I64, "begin"), (I64, "end")))
    division = Frames.of(binding.frames, lanes, sums)
    begin: Value | int = 0
    whole: Value | int = division.whole
    end: Value | int = binding.frames
    if binding.chunks > 1:
        begin, end = f.argument("begin"), f.argument("end")
        whole = f.minimum(end, whole, "whole")
    stride = division.vectors * lanes.count * lanes.bytes
    temporaries = [
        f.stack(channels * stride, LINE_BYTES, "temporary") for channels in program.temporaries
    ]
    rows = [(distance.row, distance.tap) for distance in distances]
    code = StageCode(f, lanes, rows, temporaries, stride, sums.sums)
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


def _entry(
    name: str,
    function: Function,
    binding: Binding,
    distances: Sequence[_Distances],
    lanes: Lanes,
) -> Function:
    f = Function(name, KERNEL_PARAMETERS, external=True)
    args = f.argument("args")
    pointers = [
        f.load(PTR, f.element(args, bound.argument, POINTER_BYTES), POINTER_BYTES, "array")
        for bound in binding.parameters
    ]
    with f.loop("item", f.argument("begin"), f.argument("end")) as loop:
        image = f.div(loop.index, binding.chunks, "image")
        begin = f.mul(f.rem(loop.index, binding.chunks), CHUNK_FRAMES, "begin")
        given: list[Value | int] = []
        for bound, pointer, distance in zip(binding.parameters, pointers, distances, strict=True):
            skipped = f.add(f.mul(image, bound.image_stride), bound.offset)
            given += [
                f.element(pointer, skipped, lanes.bytes),
                *distance.given(bound, lanes.bytes),
            ]
        end = f.minimum(f.add(begin, CHUNK_FRAMES), binding.frames, "end")
        f.call(function, *given, begin, end)
    return f
