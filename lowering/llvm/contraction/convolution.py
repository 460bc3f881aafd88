"""Convolutions on plain arrays as contractions: fprop, dgrad and wgrad, channels innermost.

Activations are `N spatial… C` and filters are described by strides, so that any filter layout is
packed straight from where it lies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.spec import Axis, HostContraction, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.dialects.windows import Window
    from convir.lowering.llvm.contraction.spec import FloatType


@dataclass(frozen=True)
class FilterStrides:
    """Where the elements of a filter lie: elements between two neighbours of each kind."""

    k: int
    """Between two output channels (of all groups)."""
    c: int
    """Between two input channels of a group."""
    taps: tuple[int, ...]
    """Between two taps along each spatial dimension."""

    @staticmethod
    def of(letters: str, k: int, c: int, taps: Sequence[int]) -> FilterStrides:
        """The strides of a dense filter in a layout such as `KRSC`, `KCRS` or `RSCK`."""
        spatial = [letter for letter in "TRS" if letter in letters]
        sizes = {"K": k, "C": c, **dict(zip(spatial, taps, strict=True))}
        strides = {
            letter: prod(sizes[inner] for inner in letters[place + 1 :])
            for place, letter in enumerate(letters)
        }
        return FilterStrides(strides["K"], strides["C"], tuple(strides[s] for s in spatial))


@dataclass(frozen=True)
class ConvSizes:
    """The sizes of a convolution X (N, spatial, C) → Y (N, spatial, K)."""

    n: int
    c: int
    k: int
    inputs: tuple[int, ...]
    """Spatial sizes of X."""
    outputs: tuple[int, ...]
    """Spatial sizes of Y."""
    windows: tuple[Window, ...]
    groups: int = 1


def _strides(channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
    """Elements between two positions along N and each spatial dimension, channels innermost."""
    sizes = (*spatial, channels)
    return tuple(prod(sizes[place:]) for place in range(len(sizes)))


def fprop(
    sizes: ConvSizes, weights: FilterStrides, element: FloatType, *, accumulate: bool = False
) -> HostContraction:
    """Y[n, p, k] (+)= Σ X[n, p·stride + r·dilation − pad, c] · W[k, r, c]."""
    x, y = _strides(sizes.c, sizes.inputs), _strides(sizes.k, sizes.outputs)
    axes = [Axis.batch(sizes.n, x[0], y[0])]
    for i, window in enumerate(sizes.windows):
        rows = tuple(window.reads(0, tap) for tap in range(window.taps))
        offsets = tuple(tap * weights.taps[i] for tap in range(window.taps))
        axes.append(
            Axis(
                sizes.outputs[i],
                sizes.inputs[i],
                window.stride,
                rows,
                offsets,
                x[i + 1],
                y[i + 1],
            )
        )
    depth, columns = sizes.c // sizes.groups, sizes.k // sizes.groups
    return HostContraction(
        element=element,
        phases=(Phase(tuple(axes)),),
        depth=depth,
        columns=columns,
        weight_depth_stride=weights.c,
        weight_column_stride=weights.k,
        groups=sizes.groups,
        row_group_stride=depth,
        weight_group_stride=columns * weights.k,
        out_group_stride=columns,
        accumulate=accumulate,
    )


def dgrad(
    sizes: ConvSizes, weights: FilterStrides, element: FloatType, *, accumulate: bool = False
) -> HostContraction:
    """dX[n, h, c] (+)= Σ dY[n, p, k] · W[k, r, c] over h = p·stride + r·dilation − pad.

    One phase for each residue of h modulo the strides, which only meets the taps of its residue;
    nothing is multiplied with the zeros between the gradients.
    """
    dy, dx = _strides(sizes.k, sizes.outputs), _strides(sizes.c, sizes.inputs)
    phases: list[Phase] = []
    residues = [range(min(w.stride, h)) for w, h in zip(sizes.windows, sizes.inputs, strict=True)]
    for starts in product(*residues):
        axes = [Axis.batch(sizes.n, dy[0], dx[0])]
        for i, (window, start) in enumerate(zip(sizes.windows, starts, strict=True)):
            aligned = [
                tap
                for tap in range(window.taps)
                if (start - window.reads(0, tap)) % window.stride == 0
            ]
            rows = [(start - window.reads(0, tap)) // window.stride for tap in aligned]
            axes.append(
                Axis(
                    size=-(-(sizes.inputs[i] - start) // window.stride),
                    extent=sizes.outputs[i],
                    step=1,
                    tap_rows=tuple(rows),
                    tap_weights=tuple(tap * weights.taps[i] for tap in aligned),
                    row_stride=dy[i + 1],
                    out_stride=dx[i + 1] * window.stride,
                )
            )
        offset = sum(start * stride for start, stride in zip(starts, dx[1:], strict=True))
        phases.append(Phase(tuple(axes), offset))
    depth, columns = sizes.k // sizes.groups, sizes.c // sizes.groups
    return HostContraction(
        element=element,
        phases=tuple(sorted(phases, key=lambda phase: -phase.taps)),
        depth=depth,
        columns=columns,
        weight_depth_stride=weights.k,
        weight_column_stride=weights.c,
        groups=sizes.groups,
        row_group_stride=depth,
        weight_group_stride=depth * weights.k,
        out_group_stride=columns,
        accumulate=accumulate,
    )


def wgrad(
    sizes: ConvSizes, weights: FilterStrides, element: FloatType, *, accumulate: bool = False
) -> HostContraction:
    """dW[k, r, c] (+)= Σ dY[n, p, k] · X[n, p·stride + r·dilation − pad, c]."""
    return replace(fprop(sizes, weights, element, accumulate=accumulate), result="B")
