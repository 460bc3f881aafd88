"""The vectors of implicit GEMMs: neighbours in memory, aligned, read or padded as one."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from conv_cases import problems
from cuda_contractions import contractions_of
from hypothesis import given, settings

from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import (
    orientation,
    reduced_of,
    rows_of,
    unsupported,
    widths,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.lowering.bodies.contraction.spec import Contraction, Phase

MAX_LINES = 7
"""Lines of a tile that are checked, spread over all of them."""


def unravel(index: int, sizes: Sequence[int]) -> list[int]:
    found: list[int] = []
    for size in reversed(sizes):
        found.insert(0, index % size)
        index //= size
    return found


def tap_of(spec: Contraction, phase: Phase, reduced: int) -> tuple[list[int], int]:
    """The tap along each axis, and the depth, of a step of the reduction."""
    if orientation(spec).tap_minor:
        in_channels, number = divmod(reduced, phase.taps)
    else:
        number, in_channels = divmod(reduced, spec.in_channels)
    return unravel(number, [len(axis.tap_rows) for axis in phase.axes]), in_channels


def a_element(spec: Contraction, phase: Phase, position: int, reduced: int) -> int | None:
    taps, in_channels = tap_of(spec, phase, reduced)
    at = unravel(position, [axis.size for axis in phase.axes])
    element = in_channels * spec.a.stride
    for axis, place, tap in zip(phase.axes, at, taps, strict=True):
        row = place * axis.step + axis.tap_rows[tap]
        if not 0 <= row < axis.extent:
            return None
        element += row * axis.row_stride
    return element


def b_element(spec: Contraction, phase: Phase, reduced: int, column: int) -> int:
    taps, in_channels = tap_of(spec, phase, reduced)
    weights = sum(axis.tap_weights[tap] for axis, tap in zip(phase.axes, taps, strict=True))
    return weights + in_channels * spec.b.in_channel_stride + column * spec.b.out_channel_stride


def c_element(spec: Contraction, phase: Phase, position: int, column: int) -> int:
    at = unravel(position, [axis.size for axis in phase.axes])
    rows = sum(axis.out_stride * place for axis, place in zip(phase.axes, at, strict=True))
    return phase.out_offset + rows + column * spec.c.stride


def check(width: int, lines: int, length: int, element: Callable[[int, int], int | None]) -> None:
    """Every vector of every line: `element(line, at)` is where it lies, None for padding."""
    if width == 1:
        return
    for line in range(0, lines, max(1, lines // MAX_LINES)):
        for first in range(0, length, width):
            assert first + width <= length
            start = element(line, first)
            expected = [None if start is None else start + i for i in range(width)]
            assert [element(line, first + i) for i in range(width)] == expected
            assert start is None or start % width == 0


def swapped(element: Callable[[int, int], int | None]) -> Callable[[int, int], int | None]:
    return lambda line, at: element(at, line)


def active(spec: Contraction) -> Iterable[tuple[Phase, int, int]]:
    for phase, rows, reduced in zip(spec.phases, rows_of(spec), reduced_of(spec), strict=True):
        if phase.taps:
            yield phase, rows, reduced


@settings(deadline=None, max_examples=150)
@given(problems())
def test_vectors_are_neighbours(problem: ConvProblem) -> None:
    if 0 in (prod(problem.output_spatial), prod(problem.spatial)):
        return
    for found in contractions_of(problem):
        spec = found.contraction
        if unsupported(spec) is None:
            check_spec(spec)


def check_spec(spec: Contraction) -> None:
    lines, vectors = orientation(spec), widths(spec)
    for phase, _, _ in active(spec):
        taps = phase.taps * spec.in_channels

        def a(x: int, j: int, phase: Phase = phase) -> int | None:
            return a_element(spec, phase, x, j)

        def b(j: int, n: int, phase: Phase = phase) -> int | None:
            return b_element(spec, phase, j, n)

        def c(x: int, n: int, phase: Phase = phase) -> int | None:
            return c_element(spec, phase, x, n)

        pixels = phase.pixels
        if lines.a_by_in_channel:
            check(vectors.a, pixels, taps, a)
        else:
            check(vectors.a, taps, pixels, swapped(a))
        if spec.result == "C":
            if lines.other_by_reduction:
                check(vectors.other, spec.out_channels, taps, swapped(b))
            else:
                check(vectors.other, taps, spec.out_channels, b)
            if lines.stored_by_out_channel:
                check(vectors.out, pixels, spec.out_channels, c)
            else:
                check(vectors.out, spec.out_channels, pixels, swapped(c))
        else:
            if lines.other_by_reduction:
                check(vectors.other, spec.out_channels, pixels, swapped(c))
            else:
                check(vectors.other, pixels, spec.out_channels, c)
            if lines.stored_by_out_channel:
                check(vectors.out, taps, spec.out_channels, b)
            else:
                check(vectors.out, spec.out_channels, taps, swapped(b))
    if spec.groups > 1:
        strides = {"a": spec.a.group_stride, "b": spec.b.group_stride, "c": spec.c.group_stride}
        other, out = ("c", "b") if spec.result == "B" else ("b", "c")
        assert strides["a"] % vectors.a == 0
        assert strides[other] % vectors.other == 0
        assert strides[out] % vectors.out == 0
