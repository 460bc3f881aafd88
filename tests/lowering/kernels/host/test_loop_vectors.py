"""Loops become vectors as wide as those of the kernels."""

from __future__ import annotations

import pytest

from convir.lowering.kernels.host.target import target
from convir.lowering.loops.llvm.llvm_binding import llvm

pytestmark = pytest.mark.fast


def test_llvm_does_not_prefer_narrow_vectors() -> None:
    cpu = target()
    if not cpu.triple.startswith("x86_64"):
        pytest.skip("only LLVM's x86 processors prefer a width")
    assert "-prefer-256-bit" in cpu.features.split(",")
    assert cpu.cpu == llvm.get_host_cpu_name()
