"""The census names fused convolutions that never call the overridden operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

import convir.pytorch  # noqa: E402
from convir.pytorch import override  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

X, W, BIAS = torch.randn(2, 4, 7, 7), torch.randn(3, 4, 3, 3), torch.randn(3)


@pytest.fixture(autouse=True)
def _afresh() -> Generator[None]:
    forget()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    forget()
    torch.set_num_threads(before)


def fused(x: Any) -> Any:
    """What a frozen model calls."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no MKL-DNN")
    pointwise = torch.ops.mkldnn._convolution_pointwise
    return pointwise(x, W, BIAS, [1, 1], [2, 2], [1, 1], 1, "relu", [], "")


def test_fused_convolutions_have_rows() -> None:
    want = fused(X)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        for _ in range(2):
            assert torch.equal(fused(X), want)
        (row,) = convir.pytorch.census()
        assert (row.runs, row.convir_calls, row.pytorch_calls) == ("pytorch", 0, 2)
        assert "mkldnn::_convolution_pointwise" in row.reason
        assert row.shapes == ((2, 4, 7, 7), (3, 4, 3, 3), (2, 3, 4, 4))
        assert (row.options["stride"], row.options["padding"]) == ((2, 2), (1, 1))
        fused(X[:1])
        assert len(convir.pytorch.census()) == 2
    fused(X)
    assert [row.pytorch_calls for row in convir.pytorch.census()] == [2, 1]
    forget()
    assert convir.pytorch.census() == []


def test_nothing_is_counted_for_functions_of_our_own() -> None:
    """They override the operator in calls of their own alone."""
    with override.for_this_thread():
        fused(X)
    assert convir.pytorch.census() == []


@pytest.mark.gpu
def test_fused_convolutions_of_cudnn() -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    x, w, bias = (t.to("cuda") for t in (X, W, BIAS))
    convolve = torch.ops.aten.cudnn_convolution_relu
    want = convolve(x, w, bias, [1, 1], [0, 0], [1, 1], 1)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        got = convolve(x, w, bias, [1, 1], [0, 0], [1, 1], 1)
        (row,) = convir.pytorch.census()
    torch.testing.assert_close(got, want)
    assert "aten::cudnn_convolution_relu" in row.reason
