"""Planar kernels: every group count, tap, dilation and number of frames, on every target."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planar_cases import Case, cases, convolution, layer

from convir.lowering.bodies.contraction.scalar_program import Sum
from convir.lowering.bodies.planar.program import (
    Binding,
    Bound,
    Parameter,
    PlanarProgram,
    Rows,
    Stage,
    Term,
    Write,
)
from convir.lowering.kernels.host.fused_chain.config import SumTile, legal_tiles, rule
from convir.lowering.kernels.host.fused_chain.kernel import planar_ir
from convir.lowering.kernels.host.target import HOST, X86_64, X86_64_V3, target
from convir.runtime.arrays.host_memory import address_of
from convir.runtime.host.jit import AS_EMITTED, assembly, compile_ir

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from convir.lowering.kernels.host.target import CpuTarget

TARGETS = (HOST, X86_64_V3, X86_64)


def run(
    program: PlanarProgram,
    binding: Binding,
    arrays: list[NDArray[Any]],
    cpu: CpuTarget,
    tile: SumTile | None = None,
) -> None:
    """One launch on arrays, the arguments in order."""
    ir = planar_ir({"kernel": (program, binding)}, cpu, {} if tile is None else {"kernel": tile})
    library = compile_ir(ir, exports=("kernel",), cpu=cpu, options=AS_EMITTED)
    kernel = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
    )(library.address("kernel"))
    table = (ctypes.c_int64 * len(arrays))(*map(address_of, arrays))
    kernel(ctypes.addressof(table), 0, binding.items, 0)


@pytest.mark.parametrize("name", TARGETS)
@given(case=cases(), near=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_convolutions_along_frames(name: str, case: Case, near: bool, seed: int) -> None:
    problem = convolution(case, seed, near=near)
    run(problem.program, problem.binding, problem.arrays, target(name))
    problem.check()


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data(), case=cases(), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_every_register_tile(name: str, data: st.DataObject, case: Case, seed: int) -> None:
    problem = convolution(case, seed, near=data.draw(st.booleans()))
    tile = data.draw(st.sampled_from(legal_tiles(target(name))))
    assert SumTile.of(str(tile), target(name)) == tile
    run(problem.program, problem.binding, problem.arrays, target(name), tile)
    problem.check()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("frames", [1, 17, 64, 100])
def test_a_layer_passes_through_temporaries(name: str, frames: int) -> None:
    problem = layer(frames)
    run(problem.program, problem.binding, problem.arrays, target(name))
    problem.check()


def test_layers_that_differ_in_numbers_share_a_function() -> None:
    """Dilations and the places of rows are numbers of an entry."""
    stage = Stage(
        4,
        (Term(Rows(Parameter(0)), Parameter(1), 4, 3, 1),),
        (),
        (),
        (Write(Rows(Parameter(2)), Sum()),),
    )
    program = PlanarProgram(3, (), (stage,))
    launches = {
        f"layer{dilation}": (
            program,
            Binding(
                (Bound(0, 0, 64 + 2 * dilation, dilation), Bound(1, 0), Bound(2, 0, 64)), 64, 1
            ),
        )
        for dilation in (1, 2, 4)
    }
    ir = planar_ir(launches, target())
    assert ir.count("define internal") == 1
    assert ir.count("define void") == len(launches)


def test_configs_that_name_no_register_tile() -> None:
    cpu = target(X86_64)
    assert SumTile.of("planar", cpu) == rule(cpu) == legal_tiles(cpu)[0]
    for config in ("planar 4", "planar vectors=4", "planar vectors=3 sums=12", "contraction", ""):
        with pytest.raises(ValueError, match="is not a config of planar kernels"):
            SumTile.of(config, cpu)
    # 16 registers do not hold what 32 do.
    with pytest.raises(ValueError, match="is not a config of planar kernels"):
        SumTile.of("planar vectors=4 sums=16", cpu)


def test_depthwise_taps_share_vectors_by_shifts_of_neighbours() -> None:
    """What LLVM makes of it counts: other shuffles and broadcasts are as right, and slower."""
    wide = replace(target(X86_64_V3), cpu="x86-64-v4", vector_bits=512, vector_registers=32)
    channels, taps, frames = 8, 3, 64
    term = Term(Rows(Parameter(0)), Parameter(1), 1, taps, channels, reach=1)
    stage = Stage(channels, (term,), (), (), (Write(Rows(Parameter(2)), Sum()),))
    places = (Bound(0, 0, 80, 1), Bound(1, 0), Bound(2, 0, frames))
    launch = PlanarProgram(3, (), (stage,)), Binding(places, frames, 1)
    code = assembly(planar_ir({"kernel": launch}, wide), wide, AS_EMITTED)
    assert code.count("valign") == taps * frames // 16 // 2
    assert code.count("vpbroadcastd") == taps
    assert "vpermt2" not in code
    assert "vbroadcastss" not in code
