"""What every family owes: a reason, or a launch that is legal, compiles and computes.

The registry says which families there are, and the `problems.txt` in the folder of each family's
tests what it is made for. Each such line and its adversarial variants are given to the family. On a
GPU a result is compared with PyTorch, or with the reference where there is an epilogue: exactly
where small integers make all sums exact. Memory is full of NaN before, nothing around a result may
change, and the bits are the same every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pytest
from conv_cases import normals, small_integers, torch_answer, work
from family_problems import VARIANTS, beyond, folders, lines_of, module_of, reading_of, variant
from fused_epilogues import CASES, EPILOGUES
from gpu import cupy_or_skip, nvrtc_or_skip
from plan_runs import assert_computes

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.lowering.kernels.cuda.launch import Im2colMap, KernelPlan, Pointer, Scalar, TensorMap
from convir.lowering.kernels.registry import FAMILIES
from convir.lowering.kernels.target import DEFAULT_TARGET, Target
from convir.reference import evaluate
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import compile_cubin, kernel_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conv_cases import Array
    from family_problems import Reading

    from convir.dialects.conv.problem import ConvProblem
    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.lowering.kernels.protocol import KernelFamily

LINES = {f"{f} {i}": (f, line) for f in folders() for i, line in enumerate(lines_of(f))}
PLAIN = [f"{f} {i}" for f in folders() for i, _ in enumerate(lines_of(f, adversarial=False))]
FIRST = [f"{folder} 0" for folder in folders()]
VARIED = [name for name in LINES if name.split()[1] in "01"]
AS_IT_IS, *OTHERS = VARIANTS
CONFIGS = 6
"""Configs of a problem whose launches are looked at, and further ones up to the first legal."""
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_THREADS = 1024
MOST_BOX = 256
"""Elements along an axis of what one copy by TMA moves."""


def readings(problem: ConvProblem) -> Reading | None:
    found = reading_of(module_of(problem))
    return None if isinstance(found, Refusal) else found


def legal_plan(family: KernelFamily, reading: Reading, gpu: Target) -> KernelPlan | None:
    """The launches of the family's fastest legal config; None where it says why it has none."""
    problem = reading.problem
    refused = family.problem(problem.contraction, problem.epilogue, gpu)
    configs = family.candidates(problem, gpu)
    if isinstance(configs, Refusal):
        assert configs.reason
        return None
    assert not isinstance(refused, Refusal), "it considers configs for what it does not take"
    assert configs, "no configs, and no reason"
    first: KernelPlan | None = None
    reasons: list[str] = []
    ranked = sorted(configs, key=lambda config: family.predict(problem, config, gpu))
    for number, config in enumerate(ranked):
        if first is not None and number >= CONFIGS:
            break
        assert family.parse(str(config)) == config
        refusal = family.refusal(problem, config, gpu)
        if refusal is not None:
            assert refusal.reason
            reasons.append(f"{config}: {refusal.reason}")
            continue
        assert 0 < family.predict(problem, config, gpu) < float("inf")
        plan = family.launch(problem, config, gpu)
        assert isinstance(plan, KernelPlan)
        for kernel in plan.resolved(problem.place).kernels:
            assert_legal(kernel, gpu)
        assert all(size > 0 for size in (*plan.workspace, *plan.state))
        first = plan if first is None else first
    assert first is not None, reasons
    return first


def assert_legal(kernel: CudaKernel, gpu: Target) -> None:
    """A GPU launches it, whatever it computes."""
    assert kernel.shared_bytes <= gpu.shared_bytes
    assert 0 < np.prod(kernel.block) <= MOST_THREADS
    assert all(0 < n <= most for n, most in zip(kernel.grid, MOST_BLOCKS, strict=True))
    for argument in kernel.arguments:
        if isinstance(argument, Pointer):
            assert argument.place not in ("a", "b", "c", "epilogue")
            continue
        if isinstance(argument, Scalar):
            assert -(2**63) <= argument.value < 2**63
            continue
        assert all(0 < size < 2**32 for size in argument.sizes)
        assert all(0 < stride < 2**40 and stride % 16 == 0 for stride in argument.strides)
        match argument:
            case TensorMap():
                assert all(0 < size <= MOST_BOX for size in argument.box)
            case Im2colMap():
                assert 0 < argument.channels <= MOST_BOX
                assert 0 < argument.pixels <= 1024


def assert_compiles(plan: KernelPlan, gpu: Target) -> None:
    nvrtc_or_skip()
    for kernel in plan.kernels:
        assert compile_cubin(kernel.source, gpu.arch)


def is_sampled(folder: str, line: str, name: str) -> bool:
    """Whether a variant is one of the few that are compiled on a machine without a GPU."""
    return crc32(f"{folder} {line} {name}".encode()) % len(VARIANTS) == 0


def test_every_family_has_lines() -> None:
    assert sorted(family.name for family in folders().values()) == sorted(
        family.name for family in FAMILIES
    )


@pytest.mark.parametrize("name", LINES)
def test_what_it_is_made_for_is_taken(name: str) -> None:
    folder, line = LINES[name]
    assert plan_of_line(folder, line) is not None


def plan_of_line(folder: str, line: str) -> KernelPlan | None:
    problem = variant(line, AS_IT_IS)
    reading = None if problem is None else readings(problem)
    assert reading is not None
    return legal_plan(folders()[folder], reading, DEFAULT_TARGET)


@pytest.mark.parametrize("name", PLAIN)
def test_what_it_is_made_for_compiles_without_spills(name: str) -> None:
    nvrtc_or_skip()
    plan = plan_of_line(*LINES[name])
    assert plan is not None
    for kernel in plan.kernels:
        usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
        assert usage.spill_bytes <= kernel.spill_bytes
        assert not usage.is_serial


@pytest.mark.parametrize("seed", FIRST)
def test_variants_are_refused_or_legal(seed: str) -> None:
    folder, line = LINES[seed]
    for name in OTHERS:
        problem = variant(line, name)
        reading = None if problem is None else readings(problem)
        if reading is None:
            continue
        plan = legal_plan(folders()[folder], reading, DEFAULT_TARGET)
        if plan is not None and is_sampled(folder, line, name):
            assert_compiles(plan, DEFAULT_TARGET)


@pytest.mark.parametrize("seed", FIRST)
def test_tensors_beyond_32_bits(seed: str) -> None:
    folder, line = LINES[seed]
    problem = variant(line, AS_IT_IS)
    reading = None if problem is None else readings(beyond(problem))
    assert reading is not None
    legal_plan(folders()[folder], reading, DEFAULT_TARGET)


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("name", CASES)
def test_epilogues_are_refused_or_legal(name: str, epilogue: str) -> None:
    reading = reading_of(read_module(CASES[name].text("f16", EPILOGUES[epilogue])))
    assert not isinstance(reading, Refusal)
    plans = {
        folder: legal_plan(family, reading, DEFAULT_TARGET) for folder, family in folders().items()
    }
    taken = [folder for folder, plan in plans.items() if plan is not None]
    assert taken
    folder = taken[crc32(f"{name} {epilogue}".encode()) % len(taken)]
    plan = plans[folder]
    if plan is not None and is_sampled(folder, name, epilogue):
        assert_compiles(plan, DEFAULT_TARGET)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("seed", VARIED)
def test_variants_compile(seed: str, name: str) -> None:
    folder, line = LINES[seed]
    problem = variant(line, name)
    reading = None if problem is None else readings(problem)
    plan = None if reading is None else legal_plan(folders()[folder], reading, DEFAULT_TARGET)
    if plan is None:
        pytest.skip("there is no such variant, or it is refused")
    assert_compiles(plan, DEFAULT_TARGET)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("seed", "name"),
    [*((seed, AS_IT_IS) for seed in LINES), *((s, name) for s in VARIED for name in OTHERS)],
)
def test_results(seed: str, name: str) -> None:
    check(seed, name, small_integers)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", LINES)
def test_results_of_real_numbers(seed: str) -> None:
    check(seed, AS_IT_IS, normals)


def check(seed: str, name: str, make: Callable[[Sequence[int], str, int], Array]) -> None:
    """The plan of a line's variant stores what PyTorch computes, if the family takes it."""
    cupy_or_skip()
    folder, line = LINES[seed]
    problem = variant(line, name)
    reading = None if problem is None else readings(problem)
    plan = None if reading is None else legal_plan(folders()[folder], reading, toolkit.gpu())
    if problem is None or reading is None or plan is None:
        pytest.skip("there is no such variant, or it is refused")
    arguments = [make(shape, problem.dtype, i) for i, shape in enumerate(problem.shapes[:2])]
    expected = torch_answer(problem, *arguments)
    terms = work(problem) if make is normals else 0
    assert_computes(reading, plan, arguments, expected, problem.dtype, terms)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("name", CASES)
def test_results_of_epilogues(name: str, epilogue: str, dtype: str) -> None:
    cupy_or_skip()
    case, steps = CASES[name], EPILOGUES[epilogue]
    text = case.text(dtype, steps)
    reading = reading_of(read_module(text))
    assert not isinstance(reading, Refusal)
    arguments = [small_integers(shape, dtype, i) for i, shape in enumerate(case.shapes(steps))]
    (expected,) = evaluate(read_module(text), "main", arguments)
    for family in FAMILIES:
        plan = legal_plan(family, reading, toolkit.gpu())
        if plan is not None:
            assert_computes(reading, plan, arguments, np.asarray(expected), dtype)
