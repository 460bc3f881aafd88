"""Workspace of the host's kernels: within the plan, never read before it is written, private to a
call; and weights that are packed once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conv_cases import problems
from conv_lines import NHWC
from host_kernels import TARGETS, runnable
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from convir.dialects.context import new_context, read_module
from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.problem import ConvProblem
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.reference import evaluate
from convir.runtime.executable import Executable
from convir.runtime.host import device as host_device
from convir.runtime.host.device import HostProgram
from convir.runtime.host.plan import KernelLaunch
from convir.runtime.program import Launch, Program
from convir.runtime.read_program import read_program

GUARD_BYTES = 4096

LINES = {
    "fprop": f"conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1 {NHWC}",
    "fprop NCHW": "conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1",
    "dgrad": f"conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}",
    "wgrad": f"conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 4 {NHWC}",
    "wgrad NCHW": "conv -n 2 -c 20 -H 9 -W 9 -k 24 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 4",
    "depthwise": f"conv -n 2 -c 20 -H 9 -W 9 -k 20 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -g 20 -F 1 {NHWC}",
}


def problem_of(line: str) -> ConvProblem:
    (problem,) = parse_line(line).problems.values()
    return problem


def lowered(module: ModuleOp, workspace_bytes: int | None = None) -> Program:
    module = run(module, "backward-data").module
    PassPipeline(lowering_passes("host", workspace_bytes)).apply(new_context(), module)
    module.verify()
    return read_program(module)


def program_of(problem: ConvProblem) -> Program:
    return lowered(ModuleOp([function_of("main", problem)]))


def with_constant(problem: ConvProblem, weights: Any) -> ModuleOp:
    """The problem's function, its second operand a constant."""
    return ModuleOp([function_of("main", problem, weights)])


def small_integers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def arguments(problem: ConvProblem, seed: int = 0) -> list[Any]:
    return [small_integers(shape, seed + i) for i, shape in enumerate(problem.shapes[:2])]


def expected(problem: ConvProblem, operands: list[Any]) -> Any:
    return evaluate(ModuleOp([function_of("main", problem)]), "main", operands)[0]


class Guarded:
    """Memory full of NaN with guards behind it, in the place of `aligned_bytes`."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, int]] = []

    def __call__(self, size: int, *, zeroed: bool = False) -> Any:
        whole = np.full(size + GUARD_BYTES, 0 if zeroed else 0xFF, np.uint8)
        whole[size:] = 0xA5
        self.made.append((whole, size))
        return whole[:size]

    def check(self) -> None:
        assert all((whole[size:] == 0xA5).all() for whole, size in self.made)


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", LINES)
def test_plans_hold_the_workspace_of_every_cpu(
    name: str, cpu: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    wanted = runnable(cpu)
    if wanted is None:
        pytest.skip("this machine has no multiply-add instruction")
    memory = Guarded()
    monkeypatch.setattr(host_device, "aligned_bytes", memory)
    problem = problem_of(LINES[name])
    program = program_of(problem)
    assert program.arena_bytes > 0
    executable = Executable(HostProgram(program, cpu=wanted))
    for seed in (0, 7):
        operands = arguments(problem, seed)
        assert np.array_equal(executable(*operands), expected(problem, operands))
    memory.check()
    assert not caplog.records


FLIPPED = ConvProblem(
    Direction.DGRAD,
    "f32",
    n=1,
    c=1,
    k=2,
    spatial=(2,),
    taps=(2,),
    geometry=Geometry("NCW", "KCS", "NCW", (2,), (0,), (0,), (1,), 1),
)
"""Its filter is read backwards, as the rows of a product with all shifts of the image."""


@example(problem=FLIPPED, cpu="host")
@given(problem=problems(dtypes=["f32"]), cpu=st.sampled_from(TARGETS))
@settings(max_examples=20, deadline=None)
def test_any_convolution_runs_in_its_plan(problem: ConvProblem, cpu: str):
    wanted = runnable(cpu)
    if wanted is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        memory = Guarded()
        patch.setattr(host_device, "aligned_bytes", memory)
        operands = arguments(problem)
        executable = Executable(HostProgram(program_of(problem), cpu=wanted))
        assert np.array_equal(executable(*operands), expected(problem, operands))
        memory.check()


@pytest.mark.parametrize("name", ["fprop", "dgrad", "depthwise", "fprop NCHW"])
def test_constant_weights_are_packed_once(name: str):
    problem = problem_of(LINES[name])
    images, weights = arguments(problem)
    program = lowered(with_constant(problem, weights))
    (launch,) = (call for call in program.calls if isinstance(call, Launch))
    as_argument = program_of(problem)
    assert program.arena_bytes < as_argument.arena_bytes
    compiled = HostProgram(program)
    executable = Executable(compiled)
    (packing,) = compiled.plan.packings
    steps = [step for step in compiled.plan.steps if isinstance(step, KernelLaunch)]
    assert packing.entry not in [step.entry for step in steps]
    wanted = expected(problem, [images, weights])
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(executable, [images] * 16))
    assert all(np.array_equal(result, wanted) for result in results)
    assert len(launch.workspace) == (1 if program.arena_bytes else 0)


def test_chunks_share_their_packed_weights():
    problem = problem_of(LINES["fprop NCHW"].replace("-n 2", "-n 7"))
    images, weights = arguments(problem)
    module = with_constant(problem, weights)
    whole = lowered(module).arena_bytes
    program = lowered(module, whole // 3)
    assert program.arena_bytes <= whole // 3
    assert len(program.calls) > 2
    compiled = HostProgram(program)
    # One for the chunks that are full, one for the rest at the end.
    assert len(compiled.plan.packings) <= 2
    assert np.array_equal(Executable(compiled)(images), expected(problem, [images, weights]))


@pytest.mark.parametrize("name", ["fprop", "wgrad", "fprop NCHW"])
def test_executables_in_parallel(name: str):
    problem = problem_of(LINES[name])
    program = program_of(problem)
    executables = [Executable(HostProgram(program)) for _ in range(2)]
    cases = [arguments(problem, seed) for seed in range(8)]
    wanted = [expected(problem, case) for case in cases]

    def repeated(number: int) -> bool:
        executable, case = executables[number % 2], cases[number]
        return all(np.array_equal(executable(*case), wanted[number]) for _ in range(20))

    with ThreadPoolExecutor(len(cases)) as threads:
        assert all(threads.map(repeated, range(len(cases))))


PROGRAM = """
kernel.func @k(%x: tensor<40x16xf32>, %w: tensor<16x21xf32>) -> tensor<40x21xf32>
    attributes {configs = {host = "contraction"}} {
  %zero = arith.constant dense<0.0> : tensor<40x21xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<40x16xf32>, tensor<16x21xf32>)
                     outs(%zero : tensor<40x21xf32>) -> tensor<40x21xf32>
  kernel.return %0 : tensor<40x21xf32>
}
func.func @main(%x: memref<40x16xf32>, %w: memref<16x21xf32>, %y: memref<40x21xf32>)
    attributes {rt.program} {
  %arena = rt.arena : memref<8192xi8>
  %given = rt.view %arena[256] : memref<8192xi8> to memref<GIVENxi8>
  rt.launch @k ins(%x, %w : memref<40x16xf32>, memref<16x21xf32>) outs(%y : memref<40x21xf32>)
               WORKSPACE
  func.return
}
"""


@pytest.mark.parametrize("given", [0, 100, 4096])
def test_a_launch_without_enough_workspace_says_so(given: int, caplog: pytest.LogCaptureFixture):
    workspace = f"workspace(%given : memref<{given}xi8>)" if given else ""
    text = PROGRAM.replace("GIVEN", str(given or 1)).replace("WORKSPACE", workspace)
    executable = Executable(HostProgram(read_program(read_module(text))))
    x, w = small_integers((40, 16), 0), small_integers((16, 21), 1)
    assert np.array_equal(executable(x, w), x @ w)
    told = [record.getMessage() for record in caplog.records]
    assert ("beside the plan" in "".join(told)) == (given < 4096)
