"""Other configs of a signature's kernel than selection takes: its predictions err by some percent,
and what is timed anyway may be timed with a few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.pytorch.compile.compilation import default_pipeline, planned, within
from convir.runtime.cache.program_cache import Question, load_program, store_program
from convir.runtime.cuda.plan import CudaPlan
from convir.runtime.devices import CUDA, Device

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from convir.lowering.kernels.target import Target
    from convir.lowering.selection.kernel_candidates import Candidates
    from convir.lowering.selection.tune import Tunable, TunableKernel
    from convir.pytorch.compile.compilation import Source, Wanted

SELECTED = ""
"""Stands for the config that selection takes."""


def plans_of(wanted: Wanted, source: Source, gpu: Target) -> Mapping[str, CudaPlan] | Refusal:
    """The plans of a signature for a GPU, by config; no GPU is needed.

    Args:
        wanted: which of them. Configs beyond the first that cannot be planned are left out.
        source: its text.
        gpu: what it is for.

    Raises:
        DiagnosticError, PassFailedException, CompileError: the compiler fails.
        NoGpuError: a part of what compiles for a GPU is missing.
    """
    signature, size = wanted.signature, wanted.workspace_bytes
    if wanted.config != SELECTED:
        plan = _with_config(
            wanted, source, gpu, wanted.config, lambda: _tunable(wanted, source, gpu)
        )
        return plan if isinstance(plan, Refusal) else {wanted.config: plan}
    first = planned(signature, source, size, gpu)
    if isinstance(first, Refusal):
        return first
    found: dict[str, CudaPlan] = {SELECTED: first}
    if not wanted.further:
        return found
    tunable = _tunable(wanted, source, gpu)
    if isinstance(tunable, Refusal):
        return found
    for config in _candidates(tunable[1]).fastest(wanted.further + 1):
        if config not in first.summary and len(found) <= wanted.further:
            plan = _with_config(wanted, source, gpu, config, lambda: tunable)
            if isinstance(plan, CudaPlan):
                found[config] = plan
    return found


def _with_config(
    wanted: Wanted,
    source: Source,
    gpu: Target,
    config: str,
    tunable: Callable[[], tuple[Tunable, TunableKernel] | Refusal],
) -> CudaPlan | Refusal:
    """The plan in which the kernel has a config, from the cache if it is there."""
    from convir.api.plans import early_kernels, made_for  # noqa: PLC0415  (as below)
    from convir.runtime.read_program import read_program  # noqa: PLC0415  (brings xDSL along)

    device = Device(CUDA, 0, gpu)
    key = Question(
        source.text.encode(),
        None,
        f"{default_pipeline()}, {config}",
        wanted.workspace_bytes,
        wanted.signature.allow_tf32,
        made_for(device),
    ).key(None)
    entry = None if key is None else load_program(key)
    if not isinstance(entry, CudaPlan):
        found = tunable()
        if isinstance(found, Refusal):
            return found
        module, kernel = found
        refused = _candidates(kernel).refusal(config)
        if refused is not None:
            return refused
        program = read_program(module.lowered(kernel, config), "main")
        with early_kernels(device) as compiling:
            entry = compiling.plan(program)
        assert isinstance(entry, CudaPlan)
        if key is not None:
            store_program(key, entry)
    return within(entry, wanted.workspace_bytes)


def _tunable(
    wanted: Wanted, source: Source, gpu: Target
) -> tuple[Tunable, TunableKernel] | Refusal:
    """The module of a signature, and the one kernel of it that several configs compute."""
    from convir.api.build import Build  # noqa: PLC0415  (brings the whole compiler along)
    from convir.api.sources import source_of  # noqa: PLC0415

    found = Build(
        source_of(source.text, (), 1.0),
        "main",
        default_pipeline(),
        Device(CUDA, 0, gpu),
        wanted.workspace_bytes,
        wanted.signature.allow_tf32,
    ).tunable()
    if len(found.kernels) != 1:
        return Refusal(f"{len(found.kernels)} kernels of it have several configs, not one")
    return found, found.kernels[0]


def _candidates(kernel: TunableKernel) -> Candidates:
    from convir.lowering.selection.kernel_candidates import Candidates  # noqa: PLC0415  (as above)

    found = kernel.candidates
    assert isinstance(found, Candidates)  # The others are the host's.
    return found
