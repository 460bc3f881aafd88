"""What is missing, too old or full: PyTorch's kernel runs, and one warning says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

import convir.pytorch  # noqa: E402
from convir.analysis.refusal import Refusal  # noqa: E402
from convir.pytorch import choices, native  # noqa: E402
from convir.pytorch.choices import change_over, settle  # noqa: E402
from convir.pytorch.compile import pool, worker  # noqa: E402
from convir.pytorch.compile.compilation import Failure, Wanted, refusal_of  # noqa: E402
from convir.pytorch.compile.worker import Request, answer  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402
from convir.pytorch.rows import Row, known_rows  # noqa: E402
from convir.pytorch.settings import Settings  # noqa: E402
from convir.pytorch.signature import Options, Signature, Tensor  # noqa: E402
from convir.runtime.cuda import toolkit  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

F: Any = torch.nn.functional

ON_GPU = Signature(
    "forward",
    "f16",
    (Tensor((2, 8, 6, 6), (288, 1, 48, 8)), Tensor((8, 8, 1, 1), (8, 1, 8, 8))),
    Tensor((2, 8, 6, 6), (288, 1, 48, 8)),
    bias=False,
    options=Options((1, 1), (0, 0), (1, 1), transposed=False, output_padding=(0, 0), groups=1),
    device="cuda:0",
)
PREFERRED = Settings(prefer="convir", wait=True)


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    warned: set[str] = set()
    monkeypatch.setattr(native, "_warned", warned)
    if not torch.cuda.is_available():  # PyTorch has no such function without CUDA.
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", bool)
    forget()
    yield
    forget()


def asked(times: int = 2) -> list[Row]:
    """Rows of a GPU's signature, each left to PyTorch."""
    rows = [Row(ON_GPU) for _ in range(times)]
    for row in rows:
        settle(row, PREFERRED)
        change_over(row, (), lambda: None)
        assert row.run is row.waiting is None
    return rows


@pytest.mark.parametrize(
    "message",
    [
        "NVRTC is not installed: pip install 'convir[cuda]'",
        "the NVIDIA driver is too old: it is for CUDA 12.4, CuPy for CUDA 13.2",
    ],
)
def test_a_gpu_without_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, message: str
) -> None:
    def missing(_: int) -> None:
        raise toolkit.NoGpuError(message)

    monkeypatch.setattr(toolkit, "require_gpu", missing)
    for row in asked():
        assert row.reason == f"NoGpuError: {message}"
    assert caplog.text.count(message) == 1


def test_a_driver_that_is_too_old(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As CuPy finds it: the driver counts no GPU, and names an older CUDA."""

    class Runtime:
        CUDARuntimeError = RuntimeError

        def getDeviceCount(self) -> int:  # noqa: N802
            raise RuntimeError("cudaErrorInsufficientDriver")

        def driverGetVersion(self) -> int:  # noqa: N802
            return 12040

        def runtimeGetVersion(self) -> int:  # noqa: N802
            return 13020

    class CuPy:
        class cuda:  # noqa: N801
            runtime = Runtime()

    monkeypatch.setattr(toolkit, "cupy", CuPy)
    for row in asked():
        assert "driver is too old: it is for CUDA 12.4" in row.reason
    assert caplog.text.count("driver is too old") == 1


def test_a_background_process_without_its_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ImportError("No module named 'llvmlite'")

    monkeypatch.setattr(worker, "plans_of", missing)
    gpu: Any = object()
    assert answer(Request(Wanted(ON_GPU, 0), gpu)) == Failure(
        "ImportError: No module named 'llvmlite'"
    )


def test_no_compiler_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(*_: object) -> None:
        raise ImportError("No module named 'llvmlite'")

    monkeypatch.setattr(pool, "compiled", missing)
    x, w = torch.randn(2, 4, 7, 7), torch.randn(3, 4, 3, 3)
    want = F.conv2d(x, w), F.conv2d(x[:1], w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        assert torch.equal(F.conv2d(x, w), want[0])
        assert torch.equal(F.conv2d(x[:1], w), want[1])
        assert {row.runs for row in convir.pytorch.census()} == {"pytorch"}
        assert all("llvmlite" in row.reason for row in known_rows())
    assert caplog.text.count("llvmlite") == 1


def test_what_the_compiler_does_not_know_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> Refusal:
        return Refusal("no kernel has it")

    monkeypatch.setattr(choices, "compile_now", refused)
    assert [row.reason for row in asked(1)] == ["no kernel has it"]
    assert not caplog.text
    assert isinstance(refusal_of(MemoryError("full")), Failure)
