"""The lines of a benchmark: what their users wrote, which problem each is, and a short name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from convir.dialects.conv.geometry import Direction
from convir.frontends.miopen import DIRECTIONS, parse_line
from convir.frontends.miopen_options import LineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.frontends.miopen import ConvLine

_DIRECTION = re.compile(r"\s+(?:-F|--forw)(?:\s*=\s*|\s+)\S+")
"""Where a line says its directions."""

_WORDS: Mapping[Direction, str] = {
    Direction.FPROP: "fprop",
    Direction.DGRAD: "dgrad",
    Direction.WGRAD: "wgrad",
}
_TRANSPOSED_WORDS: Mapping[Direction, str] = {
    Direction.DGRAD: "transposed fprop",
    Direction.FPROP: "transposed dgrad",
    Direction.WGRAD: "transposed wgrad",
}


def named_problems(lines: Sequence[ConvLine]) -> list[tuple[str, ConvProblem]]:
    """The problems of all lines, each with the line that its user would write for it alone: the
    line itself, where that has one direction."""
    return [
        (_line_of(line, name), problem) for line in lines for name, problem in line.problems.items()
    ]


def _line_of(line: ConvLine, function: str) -> str:
    if len(line.problems) == 1:
        return line.text
    return f"{_DIRECTION.sub('', line.text)} -F {DIRECTIONS[function]}"


def canonical(line: str) -> str:
    """The one spelling of the problem of a line; the line itself if it has no such."""
    found = _parsed(line)
    return line if found is None else str(found[0])


def short_name(line: str) -> str:
    """Direction, type and sizes of a line: `dgrad f16 n32 c256 200x200 k512 1x1/2 g32`."""
    found = _parsed(line)
    if found is None:
        return line
    problem, transposed = found
    geometry = problem.geometry
    channels, filters, spatial = problem.c, problem.k, problem.spatial
    if transposed:
        channels, filters, spatial = filters, channels, problem.output_spatial
    taps = _sizes(problem.taps)
    parts = [
        (_TRANSPOSED_WORDS if transposed else _WORDS)[problem.direction],
        problem.dtype,
        f"n{problem.n} c{channels} {_sizes(spatial)} k{filters}",
        taps if set(geometry.strides) == {1} else f"{taps}/{_one_or_all(geometry.strides)}",
    ]
    if set(geometry.dilations) != {1}:
        parts.append(f"dilation {_one_or_all(geometry.dilations)}")
    if geometry.groups != 1:
        parts.append(f"g{geometry.groups}")
    return " ".join(parts)


def _parsed(line: str) -> tuple[ConvProblem, bool] | None:
    """The only problem of a line, and whether it is of a transposed convolution."""
    try:
        read = parse_line(line)
    except LineError:
        return None
    problems = list(read.problems.values())
    return (problems[0], read.transposed) if len(problems) == 1 else None


def _sizes(values: Sequence[int]) -> str:
    return "x".join(map(str, values))


def _one_or_all(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else _sizes(values)
