"""Shapes that nobody has timed here: they, or those like them, were timed beside cuDNN."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch")

import convir.pytorch  # noqa: E402
from convir.analysis.refusal import Refusal  # noqa: E402
from convir.pytorch import choices, rows  # noqa: E402
from convir.pytorch.comparisons import known  # noqa: E402
from convir.pytorch.comparisons.known import (  # noqa: E402
    Comparison,
    expected,
    file_of,
    known_on,
    written,
)
from convir.pytorch.comparisons.shape import Shape, shape_of  # noqa: E402
from convir.pytorch.dispatch import forget  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

F: Any = torch.nn.functional

SHAPE = Shape(
    "forward",
    "f16",
    "last",
    n=8,
    c=64,
    k=64,
    spatial=(14, 14),
    taps=(3, 3),
    strides=(1, 1),
    padding=(1, 1),
    dilations=(1, 1),
    groups=1,
)
"""Of one of the comparisons."""


def other(**fields: Any) -> list[Comparison]:
    """Four shapes near `SHAPE` but for these fields, twice as fast."""
    return [replace(each, shape=replace(each.shape, **fields)) for each in like(4, 2.0)]


def like(count: int, ratio: float) -> list[Comparison]:
    """Shapes near `SHAPE`, all of other channels."""
    return [
        Comparison(replace(SHAPE, c=64 * (2 + i), k=64), 10.0, 10.0 * ratio) for i in range(count)
    ]


@pytest.mark.parametrize(("ratio", "takes"), [(1.4, True), (1.14, True), (1.12, False)])
def test_what_was_timed_itself(ratio: float, takes: bool) -> None:
    others = like(9, 0.5 if takes else 3.0)
    found = expected(SHAPE, [*others, Comparison(SHAPE, 10, 10 * ratio)], "H200")
    assert isinstance(found, Refusal) != takes
    assert f"{ratio:.2f} times as fast" in str(found)


@pytest.mark.parametrize(
    ("others", "takes", "said"),
    [
        ([*like(4, 1.3), Comparison(replace(SHAPE, c=9999), 1, 0.1)], True, "at least 1.30 times"),
        (like(3, 2.0), False, "too few"),
        ([*like(3, 2.0), Comparison(replace(SHAPE, c=32), 10, 11)], False, "at least 1.10 times"),
        (other(k=4096), False, "few"),
        (
            [replace(each, shape=replace(each.shape, order="first")) for each in like(4, 2)],
            False,
            "",
        ),
        (other(dtype="bf16"), True, ""),
        (other(dtype="f32"), False, ""),
    ],
)
def test_what_those_like_it_say(others: list[Comparison], takes: bool, said: str) -> None:
    found = expected(SHAPE, others, "H200")
    assert isinstance(found, Refusal) != takes
    assert said in str(found)


def layer(**options: Any) -> Any:
    """A layer's row of the forward direction."""
    forget()
    transposed = options.pop("transposed", False)
    last = options.pop("last", False)
    x, w = torch.zeros(2, 8, 9, 7), torch.zeros(8, 8 // options.get("groups", 1), 3, 3)
    if last:
        x, w = (each.to(memory_format=torch.channels_last) for each in (x, w))
    with convir.pytorch.enabled(measure=False):
        (F.conv_transpose2d if transposed else F.conv2d)(x, w, **options)
        (found,) = rows.known_rows()
    return found


def test_the_shape_of_a_signature() -> None:
    shape = shape_of(layer(stride=2, padding=1, groups=4, last=True).signature)
    sizes = ((9, 7), (3, 3), (2, 2), (1, 1), (1, 1))
    assert shape == Shape("forward", "f32", "last", 2, 8, 8, *sizes, 4)
    assert shape is not None
    assert shape.grouping == "depthwise"


def test_the_shape_of_a_transposed_convolution() -> None:
    """It is the backward data direction of one whose input is its result."""
    shape = shape_of(layer(transposed=True, stride=2, output_padding=1).signature)
    sizes = ((20, 16), (3, 3), (2, 2), (0, 0), (1, 1))
    assert shape == Shape("backward data", "f32", "first", 2, 8, 8, *sizes, 1)


def test_tensors_that_lie_in_several_orders() -> None:
    signature = layer().signature
    x, w = signature.operands
    across = replace(x, strides=(504, 1, 56, 8))
    assert shape_of(replace(signature, operands=(across, w))) is None


def test_what_is_known_decides_without_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU nothing is known; here it says what a GPU's comparisons would."""

    def unwanted(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(choices, "compared", unwanted)
    answers: list[str | Refusal] = ["it was 2 times as fast", Refusal("it was slower")]

    def answer(_: object) -> str | Refusal:
        return answers.pop(0)

    monkeypatch.setattr(choices, "_expected", answer)
    forget()
    with convir.pytorch.enabled(wait=True, measure=False):
        F.conv2d(torch.zeros(1, 2, 5, 5), torch.zeros(3, 2, 3, 3))
        (row,) = convir.pytorch.census()
    assert (row.runs, row.reason) == ("convir", "it was 2 times as fast")
    forget()
    with convir.pytorch.enabled(wait=True, measure=False):
        F.conv2d(torch.zeros(1, 2, 5, 5), torch.zeros(3, 2, 3, 3))
        (row,) = convir.pytorch.census()
    assert row.runs == "pytorch"
    assert row.reason.startswith("it was slower; torch.backends.cudnn.benchmark = True")


def test_comparisons_that_come_along() -> None:
    found = known_on("NVIDIA H200", 132)
    assert len(found) > 300
    assert all(each.convir_us > 0 < each.cudnn_us for each in found)
    assert len({each.shape for each in found}) == len(found)
    is_taken = not isinstance(expected(found[0].shape, found, "H200"), Refusal)
    assert is_taken == found[0].takes


def test_a_gpu_of_which_nothing_is_known(tmp_path: Path) -> None:
    assert known_on("NVIDIA Nothing", 1) == ()
    assert file_of("NVIDIA H200", 132).is_file()
    assert file_of(f"../{tmp_path}", 1).parent == file_of("NVIDIA H200", 132).parent


def test_comparisons_as_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = Comparison(SHAPE, 1.5, 2.5)
    monkeypatch.setattr(known, "file_of", lambda *_: tmp_path / "known.jsonl")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    (tmp_path / "known.jsonl").write_text(f"{written(one)}\n", encoding="utf-8")
    assert known_on("", 1) == (one,)
