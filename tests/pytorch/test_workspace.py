"""What needs more workspace than allowed is planned in chunks of its batch, or refused."""

from __future__ import annotations

import pytest

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.pytorch.compile.compilation import planned, source_of
from convir.pytorch.layouts import strides_of
from convir.pytorch.signature import Options, Pass, Signature, Tensor
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.plan import CudaPlan
from convir.runtime.cuda.toolchain import compile as toolchain

try:
    toolkit.nvrtc()
except toolkit.NoGpuError as error:
    pytest.skip(str(error), allow_module_level=True)


def signature(direction: Pass, width: int) -> Signature:
    """A strided 1-D convolution, channels first: both activations are copied to channels last."""
    x, w, y = (8, 64, width), (64, 64, 3), (8, 64, (width - 3) // 2 + 1)
    shapes = {
        "forward": (x, w, y),
        "backward data": (y, w, x),
        "backward weight": (x, y, w),
    }[direction]
    a, b, out = (Tensor(shape, strides_of(shape, "first")) for shape in shapes)
    options = Options((2,), (0,), (1,), transposed=False, output_padding=(0,), groups=1)
    return Signature(direction, "f16", (a, b), out, bias=False, options=options, device="cuda:0")


def plan(monkeypatch: pytest.MonkeyPatch, asked: Signature, size: int) -> CudaPlan | Refusal:
    """Without the machine code."""

    def nothing(*_: object) -> bytes:
        return b""

    monkeypatch.setattr(toolchain, "compile_cubin", nothing)
    source = source_of(asked)
    assert not isinstance(source, Refusal)
    return planned(asked, source, size, DEFAULT_TARGET)


@pytest.mark.parametrize("direction", ["forward", "backward data"])
def test_chunks_of_the_batch(monkeypatch: pytest.MonkeyPatch, direction: Pass) -> None:
    asked = signature(direction, 8191)
    whole = plan(monkeypatch, asked, 1 << 30)
    assert isinstance(whole, CudaPlan)
    budget = whole.arena_bytes // 2
    chunked = plan(monkeypatch, asked, budget)
    assert isinstance(chunked, CudaPlan)
    assert 0 < chunked.arena_bytes <= budget
    assert len(chunked.steps) > len(whole.steps) == 1


def test_what_cannot_be_chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over the batch."""
    asked = signature("backward weight", 8191)
    whole = plan(monkeypatch, asked, 1 << 30)
    assert isinstance(whole, CudaPlan)
    refused = plan(monkeypatch, asked, 1 << 20)
    assert isinstance(refused, Refusal)
    assert "temporaries" in refused.reason
