"""Convolutions on dense arrays as contractions: fprop, dgrad and wgrad in any layout.

X[n, h, c] is the input, W[k, r, c] the filter (c within a group) and Y[n, p, k] the output,
with h = p * stride + r * dilation - pad along every spatial dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import (
    Axis,
    Channels,
    Contraction,
    Phase,
    Weights,
)

if TYPE_CHECKING:
    from convir.dialects.conv.windows import Window
    from convir.lowering.bodies.contraction.spec import ComputeType, StorageType


@dataclass(frozen=True)
class Layouts:
    """The order of dimensions in memory, slowest first."""

    x: str
    """Of X, such as `NHWC` or `NCW`."""
    w: str
    """Of W, such as `KRSC`, `KCRS` or `RSCK`."""
    y: str
    """Of Y."""


@dataclass(frozen=True)
class Convolution:
    """A convolution X → Y of dense arrays, whose directions are contractions."""

    n: int
    c: int
    """Input channels of all groups."""
    k: int
    """Output channels of all groups."""
    inputs: tuple[int, ...]
    """Spatial sizes of X."""
    outputs: tuple[int, ...]
    """Spatial sizes of Y."""
    windows: tuple[Window, ...]
    """One per spatial dimension."""
    layouts: Layouts
    groups: int = 1
    types: tuple[StorageType, StorageType, StorageType] = ("f32", "f32", "f32")
    """Of X, W and Y."""
    element: ComputeType = "f32"
    """Of the products and accumulators."""

    def fprop(self, *, accumulate: bool = False) -> Contraction:
        """Y (+)= Σ over r, c of X[n, h, c] · W[k, r, c]."""
        x, w, y = self._strides()
        axes = [Axis.batch(self.n, x["N"], y["N"])]
        for i, window in enumerate(self.windows):
            spatial, tap = self._letters(i)
            axes.append(
                Axis(
                    size=self.outputs[i],
                    extent=self.inputs[i],
                    step=window.stride,
                    tap_rows=tuple(window.reads(0, t) for t in range(window.taps)),
                    tap_weights=tuple(t * w[tap] for t in range(window.taps)),
                    row_stride=x[spatial],
                    out_stride=y[spatial],
                )
            )
        return Contraction(
            element=self.element,
            phases=(Phase(tuple(axes)),),
            in_channels=self.c // self.groups,
            out_channels=self.k // self.groups,
            a=self._channels(0, x, self.c),
            b=Weights(self.types[1], w["C"], w["K"], self.k // self.groups * w["K"]),
            c=self._channels(2, y, self.k),
            groups=self.groups,
            accumulate=accumulate,
        )

    def dgrad(self, *, accumulate: bool = False) -> Contraction:
        """X (+)= Σ over r, k of Y[n, p, k] · W[k, r, c], with the p that h meets through r.

        One phase for each residue of h modulo the strides, which only has the taps of its
        residue: nothing is multiplied with the zeros between the gradients.
        """
        x, w, y = self._strides()
        phases: list[Phase] = []
        residues = [
            range(min(window.stride, size))
            for window, size in zip(self.windows, self.inputs, strict=True)
        ]
        for starts in product(*residues):
            axes = [Axis.batch(self.n, y["N"], x["N"])]
            offset = 0
            for i, start in enumerate(starts):
                axes.append(self._phase_axis(i, start))
                offset += start * x[self._letters(i)[0]]
            phases.append(Phase(tuple(axes), offset))
        return Contraction(
            element=self.element,
            # The most work first, so that what is left for the end is small.
            phases=tuple(sorted(phases, key=lambda phase: -phase.taps)),
            in_channels=self.k // self.groups,
            out_channels=self.c // self.groups,
            a=self._channels(2, y, self.k),
            b=Weights(self.types[1], w["K"], w["C"], self.k // self.groups * w["K"]),
            c=self._channels(0, x, self.c),
            groups=self.groups,
            accumulate=accumulate,
        )

    def wgrad(self, *, accumulate: bool = False) -> Contraction:
        """W (+)= Σ over n, p of Y[n, p, k] · X[n, h, c]."""
        return replace(self.fprop(accumulate=accumulate), result="B")

    def _phase_axis(self, i: int, start: int) -> Axis:
        """Along dimension i: the inputs start, start + stride, …, and the taps they meet."""
        x, w, y = self._strides()
        spatial, tap = self._letters(i)
        window = self.windows[i]
        shifts = {t: start - window.reads(0, t) for t in range(window.taps)}
        aligned = [t for t, shift in shifts.items() if shift % window.stride == 0]
        return Axis(
            size=-(-(self.inputs[i] - start) // window.stride),
            extent=self.outputs[i],
            step=1,
            tap_rows=tuple(shifts[t] // window.stride for t in aligned),
            tap_weights=tuple(t * w[tap] for t in aligned),
            row_stride=y[spatial],
            out_stride=x[spatial] * window.stride,
        )

    def _channels(self, operand: int, strides: dict[str, int], channels: int) -> Channels:
        stride = strides["C"]
        return Channels(self.types[operand], stride, channels // self.groups * stride)

    def _letters(self, i: int) -> tuple[str, str]:
        """The letters of spatial dimension i: of activations, and of filters."""
        rank = len(self.windows)
        return "DHW"[3 - rank + i], "TRS"[3 - rank + i]

    def _strides(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Elements between neighbours along each dimension of X, W and Y."""
        letters = [self._letters(i) for i in range(len(self.windows))]
        x = {"N": self.n, "C": self.c}
        y = {"N": self.n, "C": self.k}
        w = {"K": self.k, "C": self.c // self.groups}
        for i, (spatial, tap) in enumerate(letters):
            x[spatial], y[spatial] = self.inputs[i], self.outputs[i]
            w[tap] = self.windows[i].taps
        layouts = self.layouts
        return _dense(layouts.x, x), _dense(layouts.w, w), _dense(layouts.y, y)


def _dense(order: str, sizes: dict[str, int]) -> dict[str, int]:
    """Strides of a dense array whose dimensions lie in `order`, slowest first."""
    return {
        letter: prod(sizes[inner] for inner in order[place + 1 :])
        for place, letter in enumerate(order)
    }
