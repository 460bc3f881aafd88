"""Random functions of one op of the `conv` dialect, in any layouts, and what follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.layouts import ACTIVATION_SPATIAL, FILTER_SPATIAL
from convir.dialects.conv.problem import ConvProblem
from convir.dialects.conv.windows import Window
from random_programs.arithmetic import choose, relu
from random_programs.elements import pointwise
from random_programs.function import RandomFunction, Value
from random_programs.moves import pad, transpose

if TYPE_CHECKING:
    from random_programs.choices import Choices

AFTER = (relu, pointwise, transpose, pad, choose)
ELEMENTS = ("f16", "bf16", "f32", "f64")


def random_window(c: Choices) -> tuple[Window, int]:
    """A window and an input size: strides above the taps, gaps, padding beyond the filter."""
    window = Window(
        taps=c.integer(1, 4),
        stride=c.integer(1, 3),
        dilation=c.integer(1, 2),
        pad_low=c.integer(0, 3),
        pad_high=c.integer(0, 3),
    )
    outputs = c.integer(1, 4)
    return window, max(1, window.smallest_input(outputs) + c.below(window.stride))


def random_problem(c: Choices) -> ConvProblem:
    """A problem of 1 to 3 spatial dimensions, mostly 2."""
    rank, groups = c.pick((2, 2, 1, 3)), c.pick((1, 1, 2, 3))
    axes = [random_window(c) for _ in range(rank)]
    activation, taps = "NC" + ACTIVATION_SPATIAL[rank], "KC" + FILTER_SPATIAL[rank]
    layouts = [
        "".join(letters[i] for i in c.permutation(len(letters)))
        for letters in (activation, taps, activation)
    ]
    windows = [window for window, _ in axes]
    return ConvProblem(
        c.pick((Direction.DGRAD, Direction.FPROP, Direction.WGRAD)),
        c.pick(ELEMENTS),
        n=c.integer(1, 2),
        c=groups * c.integer(1, 3),
        k=groups * c.integer(1, 3),
        spatial=tuple(size for _, size in axes),
        taps=tuple(window.taps for window in windows),
        geometry=Geometry(
            *layouts,
            strides=tuple(window.stride for window in windows),
            pad_low=tuple(window.pad_low for window in windows),
            pad_high=tuple(window.pad_high for window in windows),
            dilations=tuple(window.dilation for window in windows),
            groups=groups,
        ),
    )


def convolution(k: RandomFunction) -> Value:
    """A convolution of new arguments."""
    problem = random_problem(k.choices)
    geometry, (lhs, rhs, out) = problem.geometry, problem.shapes
    operands = [k.input(shape, problem.dtype) for shape in (lhs, rhs)]
    init = k.uniform(out, problem.dtype, 0)
    numbers = {
        "strides": ", ".join(map(str, geometry.strides)),
        "padding": ", ".join(
            f"{a}:{b}" for a, b in zip(geometry.pad_low, geometry.pad_high, strict=True)
        ),
        "dilations": ", ".join(map(str, geometry.dilations)),
        "groups": str(geometry.groups),
    }
    attributes = " ".join(f"{name}({value})" for name, value in numbers.items())
    layouts = ", ".join(str(layout) for layout in geometry.layouts)
    op = (
        f"conv.{problem.direction.name.lower()} layouts({layouts}) {attributes} "
        f"ins({', '.join(v.name for v in operands)} : {', '.join(v.type for v in operands)}) "
        f"outs({init.name} : TYPE)"
    )
    return k.emit(out, problem.dtype, op, small=False)


def random_convolution(c: Choices) -> RandomFunction:
    """One or two convolutions, and ops between and after them."""
    k = RandomFunction(c, max_elements=400)
    for _ in range(c.integer(1, 2)):
        value = convolution(k)
        for _ in range(c.below(4)):
            c.pick(AFTER)(k, value)
            value = k.values[-1]
    k.finish()
    return k
