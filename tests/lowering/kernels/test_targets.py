"""Each family on each target that is described: a line of its own compiles, or it says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from family_problems import folders, lines_of, module_of, problem_of, reading_of
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.target import DEFAULT_TARGET, named, names
from convir.runtime.cuda.toolchain.compile import compile_cubin

ROOT = Path(__file__).parents[3]
GPUS = re.compile(r"\b(A100|H100|H200|B200|L40S|GH200|RTX)\b", re.IGNORECASE)
DEFAULT = "lowering/kernels/target.py"
"""The module that says which file is the default."""


@pytest.mark.parametrize("target", [name for name in names() if named(name) != DEFAULT_TARGET])
@pytest.mark.parametrize("folder", folders())
def test_a_line_of_every_family(folder: str, target: str) -> None:
    gpu, family = named(target), folders()[folder]
    reading = reading_of(module_of(problem_of(lines_of(folder)[0])))
    assert not isinstance(reading, Refusal)
    configs = family.candidates(reading.problem, gpu)
    if isinstance(configs, Refusal):
        assert configs.reason
        return
    plan = family.launch(reading.problem, configs[0], gpu)
    assert isinstance(plan, KernelPlan)
    nvrtc_or_skip()
    for kernel in plan.kernels:
        assert kernel.shared_bytes <= gpu.shared_bytes
        assert compile_cubin(kernel.source, gpu.arch)


def test_no_other_module_names_a_gpu() -> None:
    """Targets are data: code reads their rates, and knows none of them by name."""
    folders = (
        "analysis",
        "api",
        "cli",
        "dialects",
        "frontends",
        "lowering",
        "passes",
        "reference",
        "runtime",
    )
    code = [
        path for name in folders for end in ("*.py", "*.cuh") for path in (ROOT / name).rglob(end)
    ]
    found = {
        str(path.relative_to(ROOT))
        for path in code
        if GPUS.search(path.read_text(encoding="utf-8"))
    }
    assert found == {DEFAULT}
