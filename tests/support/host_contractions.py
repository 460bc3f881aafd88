"""Convolutions of small integers on the CPU's contraction kernels, between guarded bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from convir.dialects.conv.windows import Window
from convir.lowering.bodies.contraction.convolution import Convolution, Layouts
from convir.lowering.bodies.contraction.spec import ComputeType, Contraction, StorageType
from convir.lowering.kernels.host.target import target
from convir.runtime.host.contraction import HostKernel, compile_contraction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from convir.lowering.kernels.host.target import CpuTarget


DIRECTIONS = ("fprop", "dgrad", "wgrad")
TARGETS = ("x86-64", "x86-64-v3", "host")
ACTIVATIONS = {
    1: ("NWC", "NCW", "CNW"),
    2: ("NHWC", "NCHW", "CHWN"),
    3: ("NDHWC", "NCDHW", "DNHCW"),
}
FILTERS = {1: ("KSC", "KCS", "SCK"), 2: ("KRSC", "KCRS", "RSCK"), 3: ("KTRSC", "KCTRS", "TRSCK")}
DTYPES: dict[StorageType, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i32": np.int32,
}
Types: TypeAlias = tuple[StorageType, StorageType, StorageType]
GUARD = 256
DOUBLE: Types = ("f64", "f64", "f64")
SINGLE: Types = ("f32", "f32", "f32")
BFLOAT: Types = ("bf16", "bf16", "bf16")
BYTES: Types = ("i8", "i8", "i32")


def runs_here(cpu: str) -> bool:
    """Whether this machine has the instructions of a target with AVX-512, or of any other."""
    host = target()
    has_bf16 = host.bf16_conversion and host.int8_dot
    has = {"x86-64-v4": host.vector_bits == 512, "x86-64-v4-bf16": has_bf16}
    return has.get(cpu, True)


@dataclass(frozen=True)
class Case:
    """A convolution to run."""

    n: int
    c: int
    k: int
    inputs: tuple[int, ...]
    windows: tuple[Window, ...]
    groups: int = 1
    orders: tuple[int, int, int] = (0, 0, 0)
    """Which layouts X, W and Y have."""
    types: Types = ("f32", "f32", "f32")
    accumulate: bool = False
    fill: int = 0
    """What an image of bytes has around it."""

    @property
    def outputs(self) -> tuple[int, ...]:
        pairs = zip(self.windows, self.inputs, strict=True)
        return tuple(window.output_size(size) for window, size in pairs)

    @property
    def layouts(self) -> Layouts:
        rank = len(self.inputs)
        x, w, y = self.orders
        return Layouts(ACTIVATIONS[rank][x], FILTERS[rank][w], ACTIVATIONS[rank][y])

    @property
    def element(self) -> ComputeType:
        if self.types[0] == "i8":
            return "i32"
        return "f64" if "f64" in self.types else "f32"

    def spec(self, kind: str) -> Contraction:
        convolution = Convolution(
            n=self.n,
            c=self.c,
            k=self.k,
            inputs=self.inputs,
            outputs=self.outputs,
            windows=self.windows,
            layouts=self.layouts,
            groups=self.groups,
            types=self.types,
            element=self.element,
        )
        return replace(getattr(convolution, kind)(accumulate=self.accumulate), fill=self.fill)


def window(taps: int, stride: int = 1, pad: int = 0, dilation: int = 1, high: int | None = None):
    return Window(taps, stride, dilation, pad, pad if high is None else high)


def operands(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, W and Y of small integers, in the order N spatial… C and K taps… C; of bytes all numbers
    of unsigned X and signed W, the extremes often."""
    rng = np.random.default_rng(7)
    bounds = ((0, 255), (-128, 127), (-(2**31), 2**31 - 1))
    x, w, y = (
        rng.integers(-3, 4, shape).astype(np.float64)
        if case.types[0] != "i8"
        else np.clip(rng.integers(2 * low, 2 * high + 1, shape), low, high).astype(np.float64)
        for (low, high), shape in zip(
            bounds,
            (
                (case.n, *case.inputs, case.c),
                (case.k, *(w.taps for w in case.windows), case.c // case.groups),
                (case.n, *case.outputs, case.k),
            ),
            strict=True,
        )
    )
    return x, w, y


def tap_slices(
    case: Case,
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """For every tap: the inputs and the outputs that meet through it."""
    for tap in product(*(range(w.taps) for w in case.windows)):
        ins: list[slice] = []
        outs: list[slice] = []
        for w, t, size, out in zip(case.windows, tap, case.inputs, case.outputs, strict=True):
            meeting = w.outputs_of_tap(t, size, out)
            first = w.reads(meeting.start, t)
            ins.append(
                slice(first, first + len(meeting) * w.stride, w.stride) if meeting else slice(0)
            )
            outs.append(slice(meeting.start, meeting.stop) if meeting else slice(0))
        yield tap, tuple(ins), tuple(outs)


def reference(case: Case, kind: str, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The result of direction `kind` from the other two operands, one tap at a time."""
    if case.fill:
        around = case.fill * w.sum(axis=tuple(range(1, w.ndim)))
        return reference(replace(case, fill=0), kind, x - case.fill, w, y) + around
    g = case.groups
    xs = x.reshape(*x.shape[:-1], g, -1).copy()
    ys = y.reshape(*y.shape[:-1], g, -1).copy()
    ws = w.reshape(g, case.k // g, *w.shape[1:]).copy()
    result = {"fprop": ys, "dgrad": xs, "wgrad": ws}[kind]
    if not case.accumulate:
        result[...] = 0
    for tap, ins, outs in tap_slices(case):
        weight = ws[(slice(None), slice(None), *tap)]
        image, gradient = xs[(slice(None), *ins)], ys[(slice(None), *outs)]
        if kind == "fprop":
            gradient += np.einsum("...gc,gkc->...gk", image, weight)
        elif kind == "dgrad":
            image += np.einsum("...gk,gkc->...gc", gradient, weight)
        else:
            pixels = [array.reshape(-1, *array.shape[-2:]) for array in (image, gradient)]
            weight += np.einsum("xgc,xgk->gkc", *pixels)
    shape = {"fprop": y, "dgrad": x, "wgrad": w}[kind].shape
    return result.reshape(shape)


def stored(array: np.ndarray, letters: str, layout: str, dtype: StorageType) -> np.ndarray:
    """`array`, whose dimensions are called `letters`, as it lies in memory."""
    moved = array.transpose([letters.index(letter) for letter in layout])
    if dtype in ("i8", "i32"):
        moved = moved.astype(np.int64)
    return np.ascontiguousarray(moved.astype(DTYPES[dtype]))


@dataclass(frozen=True)
class Guarded:
    """A copy of an array between bytes that nobody may write."""

    memory: np.ndarray

    @staticmethod
    def of(array: np.ndarray) -> Guarded:
        memory = np.full(array.nbytes + 2 * GUARD, 0xA5, np.uint8)
        memory[GUARD : GUARD + array.nbytes] = array.reshape(-1).view(np.uint8)
        return Guarded(memory)

    @property
    def inside(self) -> np.ndarray:
        return self.memory[GUARD:-GUARD]

    @property
    def address(self) -> int:
        return self.inside.ctypes.data

    def check(self, name: str) -> None:
        outside = np.concatenate([self.memory[:GUARD], self.memory[-GUARD:]])
        assert (outside == 0xA5).all(), f"{name} was written past its end"


def run(
    case: Case,
    kind: str,
    cpu: str,
    threads: int = 1,
    compiled: Callable[[Contraction, CpuTarget], HostKernel] = compile_contraction,
) -> None:
    """Run the kernel of `case`, as `compiled` makes it, and compare."""
    x, w, y = operands(case)
    result = {"fprop": 2, "dgrad": 0, "wgrad": 1}[kind]
    spatial = len(case.inputs)
    activation = "N" + "DHW"[3 - spatial :] + "C"
    letters = (activation, "K" + "TRS"[3 - spatial :] + "C", activation)
    layouts = (case.layouts.x, case.layouts.w, case.layouts.y)

    def in_memory(arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        named = zip(arrays, letters, layouts, case.types, strict=True)
        return [stored(*operand) for operand in named]

    operand = in_memory((x, w, y))
    answer = reference(case, kind, x, w, y)
    expected = stored(answer, letters[result], layouts[result], case.types[result])
    if not case.accumulate:
        operand[result].view(np.uint8)[...] = 0xFF
    kernel = compiled(case.spec(kind), target(cpu))
    a, b, c = (operand[i] for i in ((2, 1, 0) if kind == "dgrad" else (0, 1, 2)))
    guarded = {"a": Guarded.of(a), "b": Guarded.of(b), "c": Guarded.of(c)}
    for name, size in kernel.workspace.items():
        guarded[name] = Guarded.of(np.full(size, 0xFF, np.uint8))
    addresses: Any = {name: memory.address for name, memory in guarded.items()}
    kernel.pack(addresses, threads)
    kernel.run(addresses, threads)
    for name, memory in guarded.items():
        memory.check(name)
    computed = guarded["abc"[(2, 1, 0).index(result) if kind == "dgrad" else result]]
    operand[result][...] = computed.inside.view(operand[result].dtype).reshape(expected.shape)
    np.testing.assert_array_equal(
        operand[result].astype(np.float64), expected.astype(np.float64), strict=True
    )
