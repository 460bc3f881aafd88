"""Convolutions with elementwise ops behind them, as text: bias, scale, residual and relu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTERS = ("n", "d", "h", "w", "c")


@dataclass(frozen=True)
class Step:
    """One op of an epilogue."""

    op: str
    along: str | None
    """The loops that its operand has, as letters; None if it has no operand."""


BIAS = Step("addf", "c")
SCALE = Step("mulf", "")
ROWS = Step("addf", "w")
RESIDUAL = Step("addf", "ndhwc")
RELU = Step("maximumf", None)


@dataclass(frozen=True)
class Fused:
    """A convolution of 16-bit tensors, accumulated in f32; channels last, but for the result."""

    op: str
    """`fprop` or `dgrad`."""
    attributes: str
    """All but the layouts, e.g. `strides(2, 2)`."""
    lhs: tuple[int, ...]
    filter: tuple[int, ...]
    out: tuple[int, ...]
    is_channels_first: bool = False
    """Whether the result and what is shaped like it are."""

    def shapes(self, steps: Sequence[Step]) -> list[tuple[int, ...]]:
        """Shapes of all arguments."""
        loops = self._loops
        sizes = dict(zip(loops, self.out, strict=True))
        operands = [
            tuple(sizes[letter] for letter in loops if letter in step.along)
            for step in steps
            if step.along is not None
        ]
        return [self.lhs, self.filter, *operands]

    def text(self, dtype: str, steps: Sequence[Step]) -> str:
        """A module whose function `main` computes it, each step rounded to `dtype`."""
        loops = self._loops
        spatial = "".join(letter.upper() for letter in loops if letter not in "nc")
        last = f"N{spatial}C"
        result = "".join(loops).upper()
        inputs = (result, last) if self.op == "dgrad" else (last, result)
        layouts = f"layouts({inputs[0]}, K{'TRS'[3 - len(spatial) :]}C, {inputs[1]})"
        lhs, weights, *operands = (_type(shape, dtype) for shape in self.shapes(steps))
        out = _type(self.out, dtype)
        arguments = ", ".join(f"%e{i}: {kind}" for i, kind in enumerate(operands))
        text = (
            f"func.func @main(%x: {lhs}, %w: {weights}{', ' if arguments else ''}{arguments})"
            f" -> {out} {{\n"
            f"  %zero = arith.constant 0.0 : {dtype}\n"
            f"  %empty = tensor.empty() : {out}\n"
            f"  %zeros = linalg.fill ins(%zero : {dtype}) outs(%empty : {out}) -> {out}\n"
            f"  %y0 = conv.{self.op} {layouts} {self.attributes} accumulate(f32)"
            f" ins(%x, %w : {lhs}, {weights}) outs(%zeros : {out})\n"
        )
        number = 0
        for i, step in enumerate(steps):
            inputs, kinds, along = [f"%y{i}"], [out], ["".join(loops)]
            if step.along is not None:
                inputs, kinds = [*inputs, f"%e{number}"], [*kinds, operands[number]]
                along.append("".join(letter for letter in loops if letter in step.along))
                number += 1
            text += _generic(step, i + 1, dtype, loops, inputs, kinds, along, out)
        return f"{text}  return %y{len(steps)} : {out}\n}}\n"

    @property
    def _loops(self) -> tuple[str, ...]:
        *spatial, channels = LETTERS[-len(self.out) + 1 :]
        return ("n", channels, *spatial) if self.is_channels_first else ("n", *spatial, channels)


def _type(shape: Sequence[int], dtype: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def _generic(
    step: Step,
    number: int,
    dtype: str,
    loops: Sequence[str],
    inputs: Sequence[str],
    kinds: Sequence[str],
    along: Sequence[str],
    out: str,
) -> str:
    maps = ", ".join(
        f"affine_map<({', '.join(loops)}) -> ({', '.join(letters)})>" for letters in (*along, loops)
    )
    iterators = ", ".join('"parallel"' for _ in loops)
    names = ", ".join(f"%b{i}: {dtype}" for i in range(len(inputs) + 1))
    right = "%b1" if step.along is not None else "%zero"
    return (
        f"  %y{number} = linalg.generic {{indexing_maps = [{maps}], "
        f"iterator_types = [{iterators}]}} ins({', '.join(inputs)} : {', '.join(kinds)}) "
        f"outs(%empty : {out}) {{\n  ^bb0({names}):\n"
        f"    %r = arith.{step.op} %b0, {right} : {dtype}\n"
        f"    linalg.yield %r : {dtype}\n  }} -> {out}\n"
    )


CASES = {
    "forward": Fused("fprop", "padding(1, 1)", (2, 9, 7, 64), (96, 3, 3, 64), (2, 9, 7, 96)),
    "columns-tail": Fused("fprop", "", (3, 9, 7, 64), (72, 3, 3, 64), (3, 7, 5, 72)),
    "strided": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 64), (64, 3, 3, 64),
                     (2, 13, 12, 64)),
    "planes": Fused("fprop", "padding(1, 1)", (2, 9, 8, 64), (96, 3, 3, 64), (2, 96, 9, 8),
                    is_channels_first=True),
    "planes-in-boxes": Fused("fprop", "padding(1, 1)", (2, 10, 16, 64), (48, 3, 3, 64),
                             (2, 48, 10, 16), is_channels_first=True),
    "strided-planes": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 64), (64, 3, 3, 32),
                            (2, 32, 14, 12), is_channels_first=True),
    "holes": Fused("dgrad", "strides(2, 2)", (2, 5, 6, 64), (64, 1, 1, 64), (2, 10, 12, 64)),
    "holes-in-cells": Fused("dgrad", "strides(2, 2)", (2, 5, 6, 64), (64, 1, 1, 200),
                            (2, 9, 12, 200)),
    "pieces": Fused("dgrad", "strides(2, 2)", (2, 5, 6, 72), (72, 2, 2, 64), (2, 10, 12, 64)),
    "line": Fused("dgrad", "strides(8) padding(4)", (3, 16, 72), (72, 16, 256), (3, 128, 256)),
    "volume": Fused("dgrad", "strides(2, 2, 2) padding(1, 1, 1)", (2, 4, 5, 6, 64),
                    (64, 3, 3, 3, 32), (2, 8, 10, 12, 32)),
    "volume-odd": Fused("dgrad", "strides(2, 2, 2) padding(1, 1, 1)", (2, 4, 5, 6, 72),
                        (72, 3, 3, 3, 32), (2, 7, 9, 12, 32)),
    "strided-wide": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 64), (64, 3, 3, 96),
                          (2, 13, 12, 96)),
    "groups": Fused("dgrad", "strides(2, 2) padding(1, 1) groups(8)", (2, 7, 6, 64),
                    (64, 3, 3, 8), (2, 13, 12, 64)),
    "grouped-holes": Fused("dgrad", "strides(2, 2) groups(4)", (2, 7, 6, 64), (64, 1, 1, 16),
                           (2, 13, 12, 64)),
    "pairs-of-rows": Fused("fprop", "padding(1, 1) groups(2)", (3, 15, 25, 64), (64, 3, 3, 32),
                           (3, 15, 25, 64)),
    "merged-groups": Fused("fprop", "padding(1, 1) groups(16)", (2, 7, 6, 64), (64, 3, 3, 4),
                           (2, 7, 6, 64)),
    "depthwise": Fused("fprop", "padding(1, 1) groups(40)", (2, 7, 6, 40), (40, 3, 3, 1),
                       (2, 7, 6, 40)),
    "few-channels": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 32), (32, 3, 3, 3),
                          (2, 14, 12, 3)),
    "few-channels-odd": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 32),
                              (32, 3, 3, 3), (2, 13, 11, 3)),
    "few-channels-with-holes": Fused("dgrad", "strides(2, 2)", (2, 7, 6, 32), (32, 1, 1, 3),
                                     (2, 14, 12, 3)),
    "few-channels-deep": Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 128),
                               (128, 4, 4, 3), (2, 14, 12, 3)),
}  # fmt: skip

EPILOGUES: dict[str, tuple[Step, ...]] = {
    "bias": (BIAS,),
    "residual": (RESIDUAL,),
    "all": (BIAS, SCALE, RESIDUAL, RELU),
    "rows": (ROWS, RELU),
}
