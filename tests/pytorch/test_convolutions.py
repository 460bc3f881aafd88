"""Every kind of convolution, its gradients included, beside PyTorch's own kernels and f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

from pytorch_cases import CASES, Case, check, places  # noqa: E402

import convir.pytorch  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

F: Any = torch.nn.functional


@pytest.fixture(autouse=True)
def _afresh() -> Generator[None]:
    forget()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions_and_their_gradients(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("layout", ["transposed", "strided", "offset", "expanded"])
def test_views(layout: str) -> None:
    """Operands that are dense in no order, or begin somewhere in a storage."""
    torch.manual_seed(0)
    w = torch.randn(5, 4, 3, 3)
    x = {
        "transposed": torch.randn(2, 4, 9, 7).transpose(2, 3),
        "strided": torch.randn(2, 4, 14, 9)[:, :, ::2],
        "offset": torch.randn(3, 4, 7, 9)[1:],
        "expanded": torch.randn(1, 4, 7, 9).expand(2, 4, 7, 9),
    }[layout]
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        got = F.conv2d(x, w)
        (row,) = convir.pytorch.census()
    assert row.runs == "convir"
    assert places(got) == places(want)
    torch.testing.assert_close(got, want)


def test_the_rank_without_a_batch() -> None:
    x, w = torch.randn(4, 9, 9), torch.randn(3, 4, 3, 3)
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        got = F.conv2d(x, w)
        (row,) = convir.pytorch.census()
    assert row.runs == "convir"
    torch.testing.assert_close(got, want)


def test_conjugates_and_negatives() -> None:
    z = torch.randn(2, 4, 7, 7, dtype=torch.complex64)
    x, w = z.conj().imag, torch.randn(3, 4, 3, 3)
    assert x.is_neg()
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        torch.testing.assert_close(F.conv2d(x, w), want)


def test_dtypes_that_pytorch_keeps() -> None:
    x, w = torch.randn(2, 4, 7, 7).double(), torch.randn(3, 4, 3, 3).double()
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        assert torch.equal(F.conv2d(x, w), want)
        assert not convir.pytorch.census()


def test_complex_numbers() -> None:
    """PyTorch makes convolutions of their parts."""
    x, w = torch.randn(2, 4, 7, 7) * (1 + 2j), torch.randn(3, 4, 3, 3) * (2 - 1j)
    want = F.conv2d(x, w)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        torch.testing.assert_close(F.conv2d(x, w), want)


def test_empty_batches_and_channels() -> None:
    w = torch.randn(3, 4, 3, 3, requires_grad=True)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        y = F.conv2d(torch.randn(0, 4, 7, 7), w)
        y.sum().backward()
        assert y.shape == (0, 3, 5, 5)
        assert w.grad is not None
        assert not w.grad.any()
        assert convir.pytorch.census() == []


def test_errors_are_those_of_pytorch() -> None:
    x = torch.randn(2, 4, 7, 7)

    def errors() -> list[str]:
        found: list[str] = []
        for w in (torch.randn(3, 5, 3, 3), torch.randn(3, 4, 9, 9), torch.randn(3, 4, 3, 3).half()):
            with pytest.raises(RuntimeError) as error:
                F.conv2d(x, w)
            found.append(str(error.value))
        return found

    want = errors()
    with convir.pytorch.enabled(prefer="convir", wait=True):
        assert errors() == want


def test_options_that_are_one_number_for_all_dimensions() -> None:
    x, w = torch.randn(2, 4, 9, 9), torch.randn(3, 4, 3, 3)
    spelled = [([2], [1, 1]), ([2, 1], [1]), ([2, 2], [1, 1])]

    def compute() -> list[Any]:
        return [
            torch.convolution(x, w, None, stride, padding, [1, 1], False, [0, 0], 1)
            for stride, padding in spelled
        ]

    want = compute()
    with convir.pytorch.enabled(prefer="convir", wait=True):
        for a, b in zip(compute(), want, strict=True):
            torch.testing.assert_close(a, b)


def test_only_the_gradients_that_are_asked_for() -> None:
    x, w = torch.randn(2, 4, 7, 7), torch.randn(3, 4, 3, 3)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        F.conv2d(x, w.requires_grad_()).sum().backward()
        F.conv2d(x.requires_grad_(), w.detach()).sum().backward()
        rows = {row.direction: row.convir_calls for row in convir.pytorch.census()}
    assert rows == {"forward": 2, "backward weight": 1, "backward data": 1}
