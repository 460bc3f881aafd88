"""Whose kernel runs: what is compiled when, what is measured, what is kept, and what is said."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")


import convir.pytorch  # noqa: E402
from convir.analysis.refusal import Refusal  # noqa: E402
from convir.pytorch import choices, native, override, rows, timing  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402
from convir.pytorch.timing import Choice, compared  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from convir.pytorch.compile.compilation import Wanted

F: Any = torch.nn.functional

X, W = torch.randn(2, 4, 7, 7), torch.randn(3, 4, 3, 3)


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None]:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def measured(monkeypatch: pytest.MonkeyPatch, convir_us: float, pytorch_us: float) -> list[Any]:
    """Every measurement gives these times; the list of signatures that were measured."""
    asked: list[Any] = []

    def answer(signature: Any, ours: Any, theirs: Any) -> Choice:
        asked.append(signature)
        for call in (*ours.values(), theirs):
            call()
        return Choice(convir_us, pytorch_us)

    monkeypatch.setattr(choices, "compared", answer)
    return asked


def row() -> Any:
    (found,) = convir.pytorch.census()
    return found


def test_nothing_is_taken_without_a_reason() -> None:
    with convir.pytorch.enabled(wait=True):
        F.conv2d(X, W)
        assert row().runs == "pytorch"
        assert "benchmark" in row().reason


@pytest.mark.parametrize(("convir_us", "takes"), [(1.0, True), (1.99, False), (3.0, False)])
def test_the_faster_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, convir_us: float, takes: bool
) -> None:
    asked = measured(monkeypatch, convir_us, 2.0)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with convir.pytorch.enabled(wait=True):
        for _ in range(3):
            torch.testing.assert_close(F.conv2d(X, W), F.conv2d(X.double(), W.double()).float())
        assert (row().convir_calls, row().pytorch_calls) == ((3, 0) if takes else (0, 3))
        assert (row().convir_us, row().pytorch_us) == (convir_us, 2.0)
    assert len(asked) == 1
    # Another process would find it on disk.
    forget()
    with convir.pytorch.enabled(wait=True, measure=False):
        F.conv2d(X, W)
        assert row().runs == ("convir" if takes else "pytorch")
    assert len(asked) == 1


def test_real_times_are_measured() -> None:
    with convir.pytorch.enabled(wait=True, measure=True):
        F.conv2d(X, W)
        assert row().convir_us > 0
        assert row().pytorch_us > 0


def sittings(monkeypatch: pytest.MonkeyPatch, theirs: list[float]) -> tuple[Choice, int]:
    """What is chosen, and how many sittings it took: ours takes 10 µs, PyTorch's kernel so many in
    each sitting, the last ever after."""
    calls: list[str] = []

    def clock(call: Any) -> float:
        calls.append(call())
        warm, sitting = 4, 2 * timing.ROUNDS
        number = max(len(calls) - warm - 1, 0) // sitting
        return {"ours": 1e-5, "theirs": 1e-6 * theirs[min(number, len(theirs) - 1)]}[calls[-1]]

    monkeypatch.setattr(timing, "host_seconds", clock)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        F.conv2d(X, W)
        (found,) = rows.known_rows()
    choice = compared(found.signature, {"": lambda: "ours"}, lambda: "theirs")
    assert calls.count("ours") == calls.count("theirs")
    return choice, (len(calls) - 4) // (2 * timing.ROUNDS)


def test_the_worst_sitting_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in which PyTorch's kernel was slow does not take the row."""
    choice, count = sittings(monkeypatch, [9.9, 12.5, 9.9])
    assert (choice.convir_us, choice.pytorch_us) == pytest.approx((10, 9.9))
    assert choice.steady
    assert not choice.takes
    assert count == timing.SITTINGS


def test_sittings_that_disagree_are_held_again(monkeypatch: pytest.MonkeyPatch) -> None:
    choice, count = sittings(monkeypatch, [40, 12, 12, 12])
    assert (choice.pytorch_us, choice.steady, count) == (pytest.approx(12), True, 6)


@pytest.mark.parametrize(
    ("theirs", "further", "takes", "searches"),
    [
        (14, [12, 12], True, 2),
        (14, [10.2], False, 1),
        (14, [14, 10.2], False, 2),
        (14, [11.2], False, 1),  # 1.12 times as fast: 10 * 1.08 + 0.5 = 11.3
        (10.2, [], False, 0),
        (24, [9], False, 1),
        (26, [], True, 0),
    ],
)
def test_a_search_of_cudnn_that_finds_a_better_plan(
    monkeypatch: pytest.MonkeyPatch, theirs: float, further: list[float], takes: bool, searches: int
) -> None:
    """On a GPU others, in threads of their own, may give back what the first would take."""
    held: list[object] = []

    def in_new_thread(*_: object) -> list[float]:
        held.append(_)
        return [10.0, further[len(held) - 1]]

    monkeypatch.setattr(timing, "gpu_seconds", lambda call: 1e-6 * call())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(timing, "_alone", lambda _: nullcontext())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(timing, "_in_new_thread", in_new_thread)
    with convir.pytorch.enabled(measure=False):
        F.conv2d(X, W)
        (found,) = rows.known_rows()
    signature = dataclasses.replace(found.signature, device="cuda:0")
    choice = compared(signature, {"": lambda: 10.0}, lambda: theirs)
    assert choice.takes == takes
    assert len(held) == searches


def test_the_fastest_config_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"first": 12.0, "second": 9.0, "third": 10.0, "theirs": 11.0}
    monkeypatch.setattr(timing, "host_seconds", lambda call: 1e-6 * times[call()])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with convir.pytorch.enabled(measure=False):
        F.conv2d(X, W)
        (found,) = rows.known_rows()
    ours = {"": lambda: "first", "b": lambda: "second", "c": lambda: "third"}
    choice = compared(found.signature, ours, lambda: "theirs")
    assert choice == Choice(pytest.approx(9.0), pytest.approx(11.0), config="b")  # pyright: ignore[reportArgumentType]
    assert choice.takes


def test_the_config_that_was_fastest_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing beside it, in this process and the next."""
    asked: list[Wanted] = []

    def compiled(wanted: Wanted) -> Refusal:
        asked.append(wanted)
        return Refusal("it is enough to know what was asked for")

    monkeypatch.setattr(choices, "compile_now", compiled)
    with convir.pytorch.enabled(wait=True, measure=True):
        F.conv2d(X, W)
        (found,) = rows.known_rows()
        choices.store_choice(found.signature, Choice(1.0, 2.0, config="b"))
        forget()
        F.conv2d(X, W)
    assert [(each.config, each.further) for each in asked] == [
        ("", choices.FURTHER_CONFIGS),
        ("b", 0),
    ]


def test_a_busy_device_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided while times never agreed holds for this process alone."""
    monkeypatch.setattr(timing, "PATIENCE_SECONDS", 0.0)
    choice, count = sittings(monkeypatch, [40, 12, 12])
    assert (choice.steady, count) == (False, timing.SITTINGS)
    monkeypatch.setattr(choices, "compared", lambda *_: choice)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    forget()
    for measure, runs in ((True, "convir"), (False, "pytorch")):
        with convir.pytorch.enabled(wait=True, measure=measure):
            F.conv2d(X, W)
            assert row().runs == runs


@pytest.mark.parametrize("late", [0, 1, 9])
def test_times_without_waits_for_the_host(monkeypatch: pytest.MonkeyPatch, late: int) -> None:
    """A call that was enqueued after the GPU had begun is timed again, behind a longer wait."""
    busy: list[int] = []

    class Event:
        def __init__(self, **_: object) -> None: ...
        def record(self) -> None: ...
        def synchronize(self) -> None: ...

        def query(self) -> bool:
            return len(busy) <= late

        def elapsed_time(self, _: object) -> float:
            return 2.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", busy.append, raising=False)
    assert timing.gpu_seconds(lambda: None) == pytest.approx(2e-3)
    assert len(busy) == min(late + 1, 3)
    assert busy == sorted(set(busy))


def test_compilation_in_the_background() -> None:
    """PyTorch's kernel runs until ours is there, and a later call changes over."""
    with convir.pytorch.enabled(prefer="convir"):
        want = F.conv2d(X, W)
        assert row().runs == "pytorch"
        assert row().reason == "its kernel is being compiled"
        for _ in range(600):
            torch.testing.assert_close(F.conv2d(X, W), want)
            if row().runs == "convir":
                break
            time.sleep(0.1)
        assert row().runs == "convir", row().reason
        assert row().pytorch_calls > 0
        assert row().line.startswith("conv ")


def test_deterministic_choices_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, 1.0, 2.0)
    torch.use_deterministic_algorithms(True)
    try:
        with convir.pytorch.enabled(measure=True):
            first = F.conv2d(X, W)
            assert all(torch.equal(first, F.conv2d(X, W)) for _ in range(100))
            assert (row().convir_calls, row().pytorch_calls) == (101, 0)
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Refusal:
        return Refusal("there is no compiler")

    monkeypatch.setattr(choices, "compile_now", refused)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        want = F.conv2d(X, W)
        assert row().reason == "there is no compiler"
    torch.testing.assert_close(want, F.conv2d(X, W))


def test_what_fails_goes_back_to_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    with convir.pytorch.enabled(prefer="convir", wait=True):
        want = F.conv2d(X, W)
        (found,) = rows._rows.values()  # pyright: ignore[reportPrivateUsage]

        def fails(*_: object) -> None:
            raise MemoryError("the GPU is full")

        found.run = fails
        for _ in range(2):
            torch.testing.assert_close(F.conv2d(X, W), want)
        assert row().runs == "pytorch"
        assert row().reason == "it failed: the GPU is full"
    assert caplog.text.count("the GPU is full") == 1


def test_more_shapes_than_a_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "MOST_ROWS", 1)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        F.conv2d(X, W)
        F.conv2d(X[:1], W)
        assert [row.runs for row in convir.pytorch.census()] == ["convir", "pytorch"]


def test_small_workspaces() -> None:
    with convir.pytorch.enabled(prefer="convir", wait=True, workspace_bytes=0):
        torch.testing.assert_close(F.conv2d(X, W), F.conv2d(X.double(), W.double()).float())


def test_settings_that_mean_nothing() -> None:
    with pytest.raises(ValueError, match="prefer is 'mine'"):
        convir.pytorch.enable(prefer="mine")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="workspace_bytes"):
        convir.pytorch.enable(workspace_bytes=-1)
    assert not override.is_enabled()


def test_enabling_and_disabling() -> None:
    convir.pytorch.enable(prefer="convir", wait=True)
    try:
        with convir.pytorch.enabled(prefer="faster", measure=False):
            F.conv2d(X, W)
            assert row().runs == "pytorch"
        F.conv2d(X, W)
        assert row().runs == "convir"
    finally:
        convir.pytorch.disable()
    F.conv2d(X, W)
    assert row().convir_calls == 1
    convir.pytorch.disable()


@pytest.mark.parametrize("name", ["convolution", "convolution_backward"])
def test_pytorchs_own_kernels_by_another_key(name: str) -> None:
    """Where `torch.library.get_kernel` is not there."""
    keys: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    rest = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    dy = torch.randn(2, 3, 5, 5)
    arguments = (X, W, None, *rest)
    if name == "convolution_backward":
        arguments = (dy, X, W, None, *rest, [True, True, False])
    want = native.own_kernel(name, "CPU")(keys, *arguments)
    with convir.pytorch.enabled(prefer="convir", wait=True):
        got = native.redispatched(name)(keys, *arguments)
        assert convir.pytorch.census() == []
    leaves = torch.utils._pytree.tree_leaves
    for a, b in zip(leaves(got), leaves(want), strict=True):
        assert a is b is None or torch.equal(a, b)


def test_functions_of_our_own() -> None:
    """They run here though nothing is enabled, and so does their backward."""
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    with convir.pytorch.enabled(prefer="convir", wait=True):
        pass  # The settings stay.
    want = torch.autograd.grad(F.conv2d(x, w, padding="same").square().sum(), (x, w))
    y = convir.pytorch.conv2d(x, w, padding="same")
    got = torch.autograd.grad(y.square().sum(), (x, w))
    F.conv2d(x, w, padding="same").square().sum().backward()
    assert [(r.convir_calls, r.pytorch_calls) for r in convir.pytorch.census()] == [(1, 0)] * 3
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


SCRIPT = """
import sys, torch
torch.set_num_threads(1)
assert __name__ == "__main__"
print(sys.argv[1:], torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)).item())
"""


def test_a_script_that_nobody_edits(tmp_path: Path) -> None:
    script, found = tmp_path / "train.py", tmp_path / "census.json"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "convir.pytorch", "--prefer=convir", "--wait"]
    ran = subprocess.run(
        [*command, f"--census={found}", str(script), "--epochs", "3"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "['--epochs', '3'] 9.0\n"
    (one,) = json.loads(found.read_text())
    assert (one["runs"], one["convir_calls"]) == ("convir", 1)
    assert one["line"].startswith("conv -n 1 -c 1 -H 3 -W 3")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_fork_of_a_process_that_enabled() -> None:
    with convir.pytorch.enabled(prefer="convir", wait=True):
        want = F.conv2d(X, W)
        child = os.fork()
        if child == 0:
            same = torch.equal(F.conv2d(X, W), want) and row().convir_calls == 2
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
