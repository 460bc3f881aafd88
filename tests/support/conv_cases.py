# pyright: reportUnknownMemberType=false
"""Convolution problems for tests: a strategy for random ones, and PyTorch's answer to each."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch
from hypothesis import strategies as st

from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.layouts import ACTIVATION_SPATIAL, FILTER_SPATIAL
from convir.dialects.conv.problem import ConvProblem
from convir.dialects.conv.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]

# Convolutions of tests are small, and many processes run them side by side.
torch.set_num_threads(1)

DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}

_CONVOLVE = {
    1: torch.nn.functional.conv1d,
    2: torch.nn.functional.conv2d,
    3: torch.nn.functional.conv3d,
}


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, int]:
    """A window and an input size: strides above the taps, gaps, padding beyond the filter."""
    window = Window(
        taps=draw(st.integers(1, 4)),
        stride=draw(st.integers(1, 4)),
        dilation=draw(st.integers(1, 3)),
        pad_low=draw(st.integers(0, 4)),
        pad_high=draw(st.integers(0, 4)),
    )
    outputs = draw(st.integers(1, 4))
    uncovered = draw(st.integers(0, window.stride - 1))
    return window, max(1, window.smallest_input(outputs) + uncovered)


@st.composite
def problems(
    draw: st.DrawFn,
    directions: Sequence[Direction] = tuple(Direction),
    dtypes: Sequence[str] = tuple(DTYPES),
    ranks: Sequence[int] = tuple(_CONVOLVE),
) -> ConvProblem:
    """A problem in any layouts, of 1 to 3 spatial dimensions unless `ranks` says which."""
    rank = draw(st.sampled_from(ranks))
    groups = draw(st.integers(1, 3))
    axes = [draw(windows()) for _ in range(rank)]
    activation, taps = "NC" + ACTIVATION_SPATIAL[rank], "KC" + FILTER_SPATIAL[rank]
    layouts = [
        "".join(draw(st.permutations(letters))) for letters in (activation, taps, activation)
    ]
    return ConvProblem(
        draw(st.sampled_from(directions)),
        draw(st.sampled_from(dtypes)),
        n=draw(st.integers(1, 3)),
        c=groups * draw(st.integers(1, 3)),
        k=groups * draw(st.integers(1, 3)),
        spatial=tuple(size for _, size in axes),
        taps=tuple(window.taps for window, _ in axes),
        geometry=Geometry(
            layouts[0],
            layouts[1],
            layouts[2],
            strides=tuple(window.stride for window, _ in axes),
            pad_low=tuple(window.pad_low for window, _ in axes),
            pad_high=tuple(window.pad_high for window, _ in axes),
            dilations=tuple(window.dilation for window, _ in axes),
            groups=groups,
        ),
    )


def small_integers(shape: Sequence[int], dtype: str, seed: int) -> Array:
    """Integers of -2 to 2: sums of a few hundred products stay exact in every accumulator."""
    values = np.random.default_rng(seed).integers(-2, 3, tuple(shape))
    return values.astype(DTYPES[dtype])


def normals(shape: Sequence[int], dtype: str, seed: int) -> Array:
    """Normally distributed values."""
    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(DTYPES[dtype])


def torch_answer(problem: ConvProblem, lhs: Array, rhs: Array) -> Array:
    """What PyTorch computes for `problem`, in f64 and in the result's layout."""
    geometry = problem.geometry
    input_layout, filter_layout, output_layout = geometry.layouts
    axes = {
        "input": (input_layout.outer_axis, input_layout.channel_axis, *input_layout.spatial_axes),
        "filter": (
            filter_layout.outer_axis,
            filter_layout.channel_axis,
            *filter_layout.spatial_axes,
        ),
        "output": (
            output_layout.outer_axis,
            output_layout.channel_axis,
            *output_layout.spatial_axes,
        ),
    }
    left, right, result = problem.direction.roles
    given = {
        role: torch.from_numpy(array.astype(np.float64).transpose(axes[role]).copy())
        for role, array in ((left, lhs), (right, rhs))
    }
    sizes = dict(zip(problem.direction.roles, problem.shapes, strict=True))
    x, w = (
        given.get(
            role, torch.zeros([sizes[role][axis] for axis in axes[role]], dtype=torch.float64)
        )
        for role in ("input", "filter")
    )
    x.requires_grad_()
    w.requires_grad_()
    pads = [
        pad
        for pair in reversed(list(zip(geometry.pad_low, geometry.pad_high, strict=True)))
        for pad in pair
    ]
    y = _CONVOLVE[len(problem.taps)](
        torch.nn.functional.pad(x, pads),
        w,
        stride=geometry.strides,
        dilation=geometry.dilations,
        groups=geometry.groups,
    )
    if result == "output":
        answer = y
    else:
        (answer,) = torch.autograd.grad(y, x if result == "input" else w, given["output"])
    return answer.detach().numpy().transpose(np.argsort(axes[result]))


def work(problem: ConvProblem) -> int:
    """Products summed into one element of the result, at most."""
    per_group = problem.geometry.groups
    return {
        Direction.FPROP: prod(problem.taps) * problem.c // per_group,
        Direction.DGRAD: prod(problem.taps) * problem.k // per_group,
        Direction.WGRAD: prod(problem.output_spatial) * problem.n,
    }[problem.direction]
