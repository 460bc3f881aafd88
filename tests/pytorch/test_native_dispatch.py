"""Calls that are decided run in machine code, and are the same calls."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import convir.pytorch  # noqa: E402
from convir.pytorch import dispatch, override, rows  # noqa: E402
from convir.pytorch.machine_code.dispatch import NativeDispatch, native_code  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture(scope="module")
def compiled() -> None:
    if native_code.loaded(lambda: None, wait=True) is None:
        pytest.skip("there is no C++ compiler")


@pytest.fixture(params=["native", "python"])
def dispatcher(
    request: pytest.FixtureRequest, compiled: None, monkeypatch: pytest.MonkeyPatch
) -> Generator[str]:
    if request.param == "python":
        monkeypatch.setattr(native_code, "loaded", _nothing)
    convir.pytorch.disable()
    dispatch.forget()
    yield request.param
    convir.pytorch.disable()


def _nothing(_: object) -> None:
    """No code."""


def _tensors(*, channels: int = 8, bias: bool = True) -> list[Any]:
    shapes = [(2, channels, 9, 7), (12, channels, 3, 3), *([(12,)] if bias else [])]
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def _step(tensors: list[Any]) -> list[Any]:
    y = torch.nn.functional.conv2d(*tensors, stride=2, padding=1)
    return [y, *torch.autograd.grad(y.square().sum(), tensors)]


@pytest.mark.parametrize("options", [{"prefer": "convir", "wait": True}, {"measure": False}])
@pytest.mark.parametrize("bias", [False, True])
def test_every_call_gives_what_pytorch_gives(
    dispatcher: str, options: dict[str, Any], bias: bool
) -> None:
    tensors = _tensors(bias=bias)
    expected = _step(tensors)
    with convir.pytorch.enabled(**options):
        library: Any = vars(override)["_library"]
        assert isinstance(library, NativeDispatch) == (dispatcher == "native")
        for _ in range(4):
            for found, wanted in zip(_step(tensors), expected, strict=True):
                assert found.stride() == wanted.stride()
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
        census = convir.pytorch.census()
    taken = "prefer" in options
    assert {row.direction for row in census} == {"forward", "backward data", "backward weight"}
    for row in census:
        assert (row.convir_calls, row.pytorch_calls) == ((4, 0) if taken else (0, 4))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_host_runs_taken_calls_without_python(
    compiled: None, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Temporaries and several launches included, from several threads at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    dispatch.forget()
    tensors = [
        torch.randn(shape, requires_grad=True) for shape in ((4, 16, 33, 31), (24, 16, 3, 3), (24,))
    ]
    expected = _step(tensors)
    try:
        with convir.pytorch.enabled(prefer="convir", wait=True):
            for _ in range(2):
                _step(tensors)
            for row in rows.known_rows():
                assert row.words is not None
                monkeypatch.setattr(row, "run", None)
            found: list[list[Any]] = []
            workers = [
                threading.Thread(target=lambda: found.extend(_step(tensors) for _ in range(20)))
                for _ in range(3)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert [row.convir_calls for row in convir.pytorch.census()] == [62] * 3
    finally:
        torch.set_num_threads(before)
    assert len(found) == 60
    for each in found:
        for one, wanted in zip(each, expected, strict=True):
            torch.testing.assert_close(one, wanted, rtol=1e-3, atol=1e-2)


def test_what_was_kept_is_counted_after_enabling_again(dispatcher: str) -> None:
    tensors = _tensors()
    for _ in range(2):
        with convir.pytorch.enabled(measure=False):
            for _ in range(3):
                _step(tensors)
    assert [row.pytorch_calls for row in convir.pytorch.census()] == [6, 6, 6]


def test_other_settings_ask_again(dispatcher: str) -> None:
    tensors = _tensors()
    with convir.pytorch.enabled(measure=False):
        for _ in range(3):
            _step(tensors)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        _step(tensors)
        assert all(row.convir_calls == 1 for row in convir.pytorch.census())


def test_errors_are_pytorchs(dispatcher: str) -> None:
    x, w, _ = _tensors()
    with pytest.raises(RuntimeError) as plain:
        torch.conv2d(x, w[:, :3])
    with convir.pytorch.enabled(measure=False):
        for _ in range(3):
            with pytest.raises(RuntimeError) as enabled:
                torch.conv2d(x, w[:, :3])
            assert str(enabled.value) == str(plain.value)
        huge, one = torch.empty(1).expand(1 << 20, 1, 1 << 20, 1 << 20), torch.empty(1, 1, 1, 1)
        with pytest.raises(RuntimeError, match="memory"):
            torch.conv2d(huge, one)


def test_nothing_is_left_or_said(dispatcher: str, capfd: pytest.CaptureFixture[str]) -> None:
    tensors = _tensors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with convir.pytorch.enabled(measure=False):
            _step(tensors)
        _step(tensors)
    before = sum(row.pytorch_calls for row in convir.pytorch.census())
    _step(tensors)
    assert sum(row.pytorch_calls for row in convir.pytorch.census()) == before
    assert capfd.readouterr().err == ""


def test_threads_and_changes_of_settings(dispatcher: str) -> None:
    tensors = _tensors(bias=False)
    expected = _step(tensors)
    wrong: list[int] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            found = _step(tensors)
            if not torch.allclose(found[1], expected[1], rtol=1e-3, atol=1e-3):
                wrong.append(1)

    with convir.pytorch.enabled(measure=False):
        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        for size in range(20):
            convir.pytorch.enable(measure=False, workspace_bytes=size << 20)
        stop.set()
        for worker in workers:
            worker.join()
    assert not wrong
