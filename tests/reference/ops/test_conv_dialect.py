# pyright: reportUnknownMemberType=false
"""`conv` in the reference: PyTorch, adjointness, layouts, and the lowering to linalg."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.passes import run
from convir.reference import evaluate
from convir.reference.checking.check import check
from convir.reference.checking.inputs import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]

X, W, DY = "x", "w", "dy"


@dataclass(frozen=True)
class Problem:
    """A convolution of any rank in channels-first layouts, on small integers."""

    spatial: tuple[int, ...] = (7, 8)
    taps: tuple[int, ...] = (3, 2)
    strides: tuple[int, ...] = (1, 1)
    low: tuple[int, ...] = (0, 0)
    high: tuple[int, ...] = (0, 0)
    dilations: tuple[int, ...] = (1, 1)
    groups: int = 1
    n: int = 2
    c: int = 4
    k: int = 6

    @property
    def out(self) -> tuple[int, ...]:
        return tuple(
            (h + a + b - d * (r - 1) - 1) // u + 1
            for h, r, u, a, b, d in zip(
                self.spatial,
                self.taps,
                self.strides,
                self.low,
                self.high,
                self.dilations,
                strict=True,
            )
        )

    def arrays(self, dtype: Any = np.float32) -> dict[str, Array]:
        shapes = {
            X: (self.n, self.c, *self.spatial),
            W: (self.k, self.c // self.groups, *self.taps),
            DY: (self.n, self.k, *self.out),
        }
        rng = np.random.default_rng(0)
        return {name: rng.integers(-2, 3, s).astype(dtype) for name, s in shapes.items()}

    def module(
        self, direction: str, element: str = "f32", out: str = "f32", acc: str = "f32"
    ) -> str:
        letters = {1: ("W", "S"), 2: ("HW", "RS"), 3: ("DHW", "TRS")}[len(self.spatial)]
        shapes = {name: array.shape for name, array in self.arrays().items()}
        lhs, rhs, result = {"fprop": (X, W, DY), "dgrad": (DY, W, X), "wgrad": (X, DY, W)}[
            direction
        ]

        def tensor(name: str, element_type: str) -> str:
            return f"tensor<{'x'.join(map(str, shapes[name]))}x{element_type}>"

        def sizes(values: Sequence[int]) -> str:
            return ", ".join(map(str, values))

        padding = ", ".join(f"{a}:{b}" for a, b in zip(self.low, self.high, strict=True))
        a, b, c = tensor(lhs, element), tensor(rhs, element), tensor(result, out)
        return f"""
        func.func @main(%a: {a}, %b: {b}, %init: {c}) -> {c} {{
          %r = conv.{direction} layouts(NC{letters[0]}, KC{letters[1]}, NC{letters[0]})
            strides({sizes(self.strides)}) padding({padding}) dilations({sizes(self.dilations)})
            groups({self.groups}) accumulate({acc}) ins(%a, %b : {a}, {b}) outs(%init : {c})
          func.return %r : {c}
        }}"""


PROBLEMS = (
    Problem(),
    Problem(strides=(2, 3), low=(1, 1), high=(1, 1)),
    Problem(groups=2, dilations=(2, 1), low=(2, 0), high=(2, 0)),
    Problem(groups=4, c=4, k=8, strides=(2, 2)),
    Problem((9,), (4,), (3,), (2,), (2,), (1,)),
    Problem((4, 5, 6), (2, 3, 2), (1, 2, 1), (0, 1, 1), (0, 1, 1), (1, 1, 2), groups=2),
    Problem(taps=(1, 1), strides=(2, 2)),
    Problem(taps=(2, 2), strides=(3, 3)),
)
ASYMMETRIC = Problem(low=(2, 0), high=(0, 3), strides=(2, 2))


def convolution(problem: Problem, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    function = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}[len(problem.spatial)]
    pads = [p for a, b in zip(problem.low, problem.high, strict=True) for p in (b, a)][::-1]
    padded = torch.nn.functional.pad(x, pads)
    return function(padded, w, None, problem.strides, 0, problem.dilations, problem.groups)


@pytest.mark.parametrize("problem", [*PROBLEMS, ASYMMETRIC], ids=str)
def test_all_directions_equal_pytorch(problem: Problem) -> None:
    arrays = problem.arrays()
    x, w, dy = (torch.from_numpy(arrays[name]).requires_grad_(name != DY) for name in (X, W, DY))
    y = convolution(problem, x, w)
    y.backward(dy)
    assert x.grad is not None
    assert w.grad is not None
    for direction, operands, expected in (
        ("fprop", (X, W), y.detach()),
        ("dgrad", (DY, W), x.grad),
        ("wgrad", (X, DY), w.grad),
    ):
        init = np.full(expected.shape, 3, np.float32)
        module = read_module(problem.module(direction))
        (actual,) = evaluate(module, "main", [*(arrays[name] for name in operands), init])
        np.testing.assert_array_equal(actual, expected.numpy() + 3)


@pytest.mark.parametrize("problem", [*PROBLEMS, ASYMMETRIC], ids=str)
def test_adjoint_directions(problem: Problem) -> None:
    arrays = problem.arrays()

    def direction(name: str, a: str, b: str, like: str) -> Array:
        init = np.zeros_like(arrays[like])
        return evaluate(read_module(problem.module(name)), "main", [arrays[a], arrays[b], init])[0]

    product = np.vdot(arrays[DY], direction("fprop", X, W, DY))
    assert product == np.vdot(arrays[X], direction("dgrad", DY, W, X))
    assert product == np.vdot(arrays[W], direction("wgrad", X, DY, W))


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
@pytest.mark.parametrize("problem", [*PROBLEMS, ASYMMETRIC], ids=str)
def test_lowering_to_linalg_agrees_bit_for_bit(problem: Problem, direction: str) -> None:
    text = problem.module(direction, element="f16", out="f16")
    before, after = read_module(text), run(text, "convert-conv-to-linalg").module
    assert any(op.name == "linalg.generic" for op in after.walk())
    report = check(before, after)
    assert report.passed
    assert report.exact


def test_normals_are_within_tolerance_and_not_exact() -> None:
    text = Problem().module("fprop", element="bf16", out="bf16")
    after = run(text, "convert-conv-to-linalg").module
    report = check(read_module(text), after, distribution=Distribution.NORMAL)
    assert (report.passed, report.exact) == (True, False)
    assert "a sum of 24 terms in conv.fprop" in report.reason


def test_accumulation_in_16_bits_rounds_at_every_step() -> None:
    problem = Problem(spatial=(1, 1), taps=(1, 1), n=1, c=4, k=1)
    module = read_module(problem.module("fprop", element="f16", out="f16", acc="f16"))
    x = np.array([2048, 1, 1, 1], np.float16).reshape(1, 4, 1, 1)
    w = np.ones((1, 4, 1, 1), np.float16)
    (y,) = evaluate(module, "main", [x, w, np.zeros((1, 1, 1, 1), np.float16)])
    assert y.item() == 2048


@pytest.mark.parametrize("direction", ["fprop", "dgrad", "wgrad"])
@pytest.mark.parametrize("problem", [*PROBLEMS, ASYMMETRIC], ids=str)
def test_open_sizes_mean_what_the_arrays_have(problem: Problem, direction: str) -> None:
    text = problem.module(direction)
    arrays = problem.arrays()
    operands = {"fprop": (X, W, DY), "dgrad": (DY, W, X), "wgrad": (X, DY, W)}[direction]
    inputs = [arrays[name] for name in operands]
    opened = re.sub(r"tensor<[0-9x]+xf32>", lambda match: re.sub(r"\d+x", "?x", match[0]), text)
    assert "?" in opened
    expected = evaluate(read_module(text), "main", inputs)[0]
    np.testing.assert_array_equal(evaluate(read_module(opened), "main", inputs)[0], expected)


def test_arrays_that_do_not_fit_are_refused() -> None:
    open_type = "tensor<?x?x?xf32>"
    text = f"""func.func @main(%x: {open_type}, %w: {open_type}, %y: {open_type}) -> {open_type} {{
      %r = conv.fprop layouts(NCW, KCS, NCW) ins(%x, %w : {open_type}, {open_type})
        outs(%y : {open_type})
      func.return %r : {open_type}
    }}"""
    shapes = ((1, 2, 8), (3, 2, 3), (1, 3, 7))
    with pytest.raises(DiagnosticError, match="do not fit: the output has W = 7 but 6 follows"):
        evaluate(read_module(text), "main", [np.ones(shape, np.float32) for shape in shapes])
