"""What is known of a shape on a GPU: it was timed beside cuDNN, or those like it were."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convir.analysis.refusal import Refusal
from convir.pytorch.comparisons.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

FASTER = 1.08
"""How much faster convir's kernel must have been to be taken: timed again on other tensors, the
ratio of two kernels differs by a few percent."""

RESOLVED_US = 0.5
"""And by how many µs beside that: what a GPU's events tell apart. Of kernels of 10 to 16 µs that
were 8 to 10 % faster, some were 2 to 5 % slower when they were timed again."""

NEIGHBOURS = 4
"""So many shapes like it decide about one that was not timed itself."""

NEAR = 4.0
"""How unlike it they may be (`Shape.distance`)."""

NEIGHBOURS_FASTER = 1.25
"""How much faster convir's kernel must have been for each of them."""


@dataclass(frozen=True)
class Comparison:
    """A shape that was timed on a GPU: convir's kernel, and cuDNN's fastest in the same order."""

    shape: Shape
    convir_us: float
    cudnn_us: float

    @property
    def ratio(self) -> float:
        """How many times as fast convir's kernel was."""
        return self.cudnn_us / self.convir_us

    @property
    def takes(self) -> bool:
        """Whether convir's kernel was faster."""
        return is_faster(self.convir_us, self.cudnn_us)


def is_faster(convir_us: float, other_us: float) -> bool:
    """Whether convir's kernel is taken, given the times of both."""
    return convir_us * FASTER + RESOLVED_US <= other_us


def expected(shape: Shape, known: Iterable[Comparison], gpu: str) -> str | Refusal:
    """Why convir's kernel of a shape should be faster than PyTorch's, or why nothing says so.

    Args:
        shape: what is asked for.
        known: the comparisons of its GPU.
        gpu: its name.
    """
    alike = [each for each in known if each.shape.kind == shape.kind]
    for each in alike:
        if each.shape == shape:
            text = f"it was {each.ratio:.2f} times as fast as cuDNN on an {gpu}"
            return text if each.takes else Refusal(text)
    near = sorted((shape.distance(each.shape), each.ratio) for each in alike)[:NEIGHBOURS]
    if len(near) < NEIGHBOURS or near[-1][0] > NEAR:
        return Refusal(f"too few convolutions like it were timed beside cuDNN on an {gpu}")
    least = min(ratio for _, ratio in near)
    text = (
        f"the {NEIGHBOURS} convolutions most like it were at least {least:.2f} times as fast as "
        f"cuDNN on an {gpu}"
    )
    return text if least >= NEIGHBOURS_FASTER else Refusal(text)


def known_on(gpu: str, multiprocessors: int) -> tuple[Comparison, ...]:
    """The comparisons of a kind of GPU, none if there are none."""
    return _read(file_of(gpu, multiprocessors))


def file_of(gpu: str, multiprocessors: int) -> Path:
    """Where the comparisons of a kind of GPU are; it need not exist."""
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return Path(__file__).parent / f"{name}-{multiprocessors}.jsonl"


def written(comparison: Comparison) -> str:
    """A comparison as a line of a file."""
    return json.dumps(asdict(comparison), separators=(",", ":"))


_SIZES = ("spatial", "taps", "strides", "padding", "dilations")


@cache
def _read(path: Path) -> tuple[Comparison, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(_comparison(json.loads(line)) for line in text.splitlines())


def _comparison(row: dict[str, Any]) -> Comparison:
    shape: dict[str, Any] = row["shape"]
    fields: dict[str, Any] = {
        name: tuple(value) if name in _SIZES else value for name, value in shape.items()
    }
    return Comparison(Shape(**fields), row["convir_us"], row["cudnn_us"])
