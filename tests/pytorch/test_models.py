"""Compiled models: no graph break, eager strides, the results of plain PyTorch."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

from pytorch_cases import places  # noqa: E402

import convir.pytorch  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402
from convir.pytorch.rows import known_rows  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

MODELS = ("resnet50", "mobilenetv2", "convnext-t", "decoder")
SCALES = {"resnet50": 0.07, "mobilenetv2": 0.1, "convnext-t": 0.1, "decoder": 0.1}
"""Of the versions that run on a CPU."""

BOUNDS = {"cpu": 1e-3, "cuda": 1e-2}
"""Of the largest value of a tensor: a rounding may turn an activation off, and models are deep."""


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "benchmarks"), *sys.path])
    forget()
    torch.compiler.reset()
    before = torch.get_num_threads(), torch.backends.cudnn.allow_tf32
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.set_num_threads(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


def made(name: str, device: str) -> tuple[Any, Any]:
    """A model without what differs between two calls, f32, and an input of it."""
    prepared: Any = import_module("training_models").prepared
    model, x = prepared(name, device, SCALES[name] if device == "cpu" else 1.0, torch.float32)
    return model.eval(), x


def batches(x: Any, count: int) -> list[Any]:
    """Inputs of `count` batch sizes; the layout is that of `x`."""
    order = torch.channels_last if x.dim() == 4 else torch.contiguous_format
    sizes = [min(x.shape[0], 6) + extra for extra in range(2, 2 + count)]
    return [
        torch.cat([x] * (size // x.shape[0] + 1))[:size].contiguous(memory_format=order)
        for size in sizes
    ]


def outcome(model: Any, compute: Any, x: Any) -> list[Any]:
    """The result, and the gradients of all parameters."""
    model.zero_grad(set_to_none=True)  # They lie in memory of the last graph.
    torch.compiler.cudagraph_mark_step_begin()
    y = compute(x)
    y.square().mean().backward()
    return [y.detach().clone(), *[p.grad.clone() for p in model.parameters()]]


def same(name: str, device: str, dynamic: bool, **options: Any) -> None:
    model, x = made(name, device)
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, **options)
    for batch in batches(x, 2 if dynamic else 1):
        want = outcome(model, model, batch)
        with convir.pytorch.enabled(prefer="convir"):
            forget()
            outcome(model, model, batch)
            for row in known_rows():  # Compiled beside each other.
                if row.waiting is not None:
                    row.waiting.programs.result()
            eager = ours = outcome(model, model, batch)
            for _ in range(4 if device == "cuda" else 1):  # Before it captures its own graphs.
                ours = outcome(model, compiled, batch)
            taken = {row.runs for row in convir.pytorch.census()}
        assert "convir" in taken
        assert len(ours) == len(eager) == len(want)
        for got, beside, plain in zip(ours, eager, want, strict=True):
            assert places(got) == places(beside) == places(plain)
            bound = BOUNDS[device] * max(1e-2, float(plain.abs().max()))
            assert float((got - plain).abs().max()) <= bound
            assert float((beside - plain).abs().max()) <= bound


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_small_ones_on_the_cpu(name: str, dynamic: bool) -> None:
    """What the compiler makes of them, without a C++ toolchain."""
    same(name, "cpu", dynamic, backend="aot_eager")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_real_ones_on_a_gpu(name: str, dynamic: bool, mode: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    pytest.importorskip("triton")
    same(name, "cuda", dynamic, mode=mode)
