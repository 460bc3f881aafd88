"""Conv and ConvTranspose, with the batch normalisation behind them folded into their weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith

from convir.dialects.conv.geometry import Geometry
from convir.dialects.conv.layouts import ACTIVATION_SPATIAL, FILTER_SPATIAL
from convir.dialects.conv.ops import DgradOp, FpropOp
from convir.dialects.conv.windows import Window
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.ops.normalization import PARAMETERS, scale_and_shift
from convir.frontends.onnx.ops.windows import AUTO_PADS, split_padding, windows_of
from convir.frontends.scalar_functions import rounded, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.dialects.builtin import AnyFloat
    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

WEIGHTS = 1
BIAS = 2


def _conv(call: Call) -> Sequence[SSAValue]:
    x, w = call.floats(0, WEIGHTS)
    shape, geometry = forward(call, x, w)
    weights = _Weights(call, w, (shape[1],))
    sums = wide_of(element_of(x))
    init = call.emit.filled(0, shape, weights.summed_in)
    y = call.emit.insert(FpropOp(x, weights.value, init, geometry, sums))
    return [weights.with_bias(y)]


def forward(call: Call, x: SSAValue, w: SSAValue) -> tuple[tuple[int, ...], Geometry]:
    """The shape of a convolution's result, and its geometry.

    Args:
        call: the node, whose attributes say the windows and the groups.
        x: N x C x positions.
        w: K x C/G x taps.

    Raises:
        OnnxError: the operands do not fit.
    """
    rank, groups = _checked_rank(call, x, w), call.count("group", 1)
    spatial, taps = shape_of(x)[2:], shape_of(w)[2:]
    kernel_shape = call.integers("kernel_shape", taps)
    if kernel_shape != taps:
        raise call.error(f"'kernel_shape' is {list(kernel_shape)}, its filter has {list(taps)}")
    if shape_of(x)[1] != shape_of(w)[1] * groups or shape_of(w)[0] % groups:
        message = f"filter {list(shape_of(w))} with {groups} groups does not fit the input's "
        raise call.misfit(f"{message}{shape_of(x)[1]} channels")
    windows = windows_of(call, spatial, taps)
    sizes = [window.output_size(size) for window, size in zip(windows, spatial, strict=True)]
    shape = (shape_of(x)[0], shape_of(w)[0], *sizes)
    return shape, _geometry(rank, windows, groups)


def _conv_transpose(call: Call) -> Sequence[SSAValue]:
    """The gradient of a convolution's input: its windows lie on this node's output."""
    x, w = call.floats(0, WEIGHTS)
    rank, groups = _checked_rank(call, x, w), call.count("group", 1)
    if shape_of(x)[1] != shape_of(w)[0] or shape_of(w)[0] % groups:
        message = f"filter {list(shape_of(w))} with {groups} groups does not fit the input's "
        raise call.misfit(f"{message}{shape_of(x)[1]} channels")
    spreads = _spreads(call, shape_of(x)[2:], shape_of(w)[2:])
    channels = shape_of(w)[1] * groups
    shape = (shape_of(x)[0], channels, *(spread.computed for spread in spreads))
    weights = _Weights(call, w, (groups, channels // groups))
    if not all(spread.computed for spread in spreads):
        shape = (*shape[:2], *(spread.computed + spread.beyond for spread in spreads))
        return [weights.with_bias(call.emit.filled(0, shape, weights.summed_in))]
    geometry = _geometry(rank, [spread.window for spread in spreads], groups)
    zero = call.emit.number(0, weights.summed_in)
    init = call.emit.filled(0, shape, weights.summed_in)
    sums = wide_of(element_of(x))
    y = call.emit.insert(DgradOp(x, weights.value, init, geometry, sums))
    beyond = [0, 0, *(spread.beyond for spread in spreads)]
    return [weights.with_bias(call.emit.pad(y, [0] * (rank + 2), beyond, zero))]


@dataclass(frozen=True)
class _Spread:
    """A transposed convolution along one dimension."""

    window: Window
    """Of the convolution whose input gradient this is."""
    computed: int
    """Output positions from the first to the last that an input position may reach; 0 where the
    padding cut all of them."""
    beyond: int
    """Output positions after those: zeros."""


def _spreads(call: Call, sizes: Sequence[int], taps: Sequence[int]) -> list[_Spread]:
    """How each dimension is spread, for inputs of the given sizes."""
    rank = len(sizes)
    kernel_shape = call.integers("kernel_shape", taps)
    if kernel_shape != tuple(taps):
        raise call.error(f"'kernel_shape' is {list(kernel_shape)}, its filter has {list(taps)}")
    strides = call.integers("strides", [1] * rank, least=1)
    dilations = call.integers("dilations", [1] * rank, least=1)
    extra = call.integers("output_padding", [0] * rank, least=0)
    mode = call.choice("auto_pad", "NOTSET", AUTO_PADS)
    pads = call.integers("pads", [0] * (2 * rank))
    wanted = call.attribute("output_shape", None)
    if wanted is not None:
        # Some exporters write the batch size and the channels too.
        wanted = [int(size) for size in wanted][-rank:]
        if len(wanted) != rank:
            raise call.error(f"'output_shape' has {len(wanted)} values, not {rank}")
    spreads: list[_Spread] = []
    for dim, (size, count) in enumerate(zip(sizes, taps, strict=True)):
        window = Window(count, strides[dim], dilations[dim])
        reached = window.smallest_input(size)
        low, high = pads[dim], pads[rank + dim]
        target = None if wanted is None else wanted[dim]
        if target is None and mode.startswith("SAME"):
            target = size * window.stride
        if target is not None:
            total = max(reached + extra[dim] - target, 0)
            low, high = split_padding(total, more_at_end=mode == "SAME_UPPER")
        elif mode == "VALID":
            low, high = 0, 0
        output = reached + extra[dim] - low - high if target is None else target
        if low < 0 or output < 1:
            raise call.error(f"dimension {dim} of its result would have the size {output}")
        computed = max(0, min(output, reached - low))
        window = Window(count, strides[dim], dilations[dim], low, reached - low - computed)
        spreads.append(_Spread(window, computed, output - computed))
    return spreads


def _checked_rank(call: Call, x: SSAValue, w: SSAValue) -> int:
    rank = len(shape_of(x)) - 2
    if rank not in ACTIVATION_SPATIAL:
        raise call.error(f"{rank} spatial dimensions are not supported, only 1 to 3")
    if len(shape_of(w)) != rank + 2:
        raise call.error(f"an input of {x.type} does not go with a filter of {w.type}")
    return rank


def _geometry(rank: int, windows: Sequence[Window], groups: int) -> Geometry:
    activation = f"NC{ACTIVATION_SPATIAL[rank]}"
    return Geometry(
        activation,
        f"KC{FILTER_SPATIAL[rank]}",
        activation,
        strides=tuple(window.stride for window in windows),
        pad_low=tuple(window.pad_low for window in windows),
        pad_high=tuple(window.pad_high for window in windows),
        dilations=tuple(window.dilation for window in windows),
        groups=groups,
    )


class _Weights:
    """The filter and the bias of a convolution, scaled by the normalisation that follows it.

    BatchNormalization with constant parameters is `scale * y + shift` for each channel, and
    `scale * conv(x, w) = conv(x, scale * w)`. Constants alone are computed with; they are folded
    when the module is compiled.
    """

    def __init__(self, call: Call, filters: SSAValue, channels: tuple[int, ...]) -> None:
        """Take in the node that follows `call`, if it can be folded.

        Args:
            call: the convolution.
            filters: its filter: K x C/G x taps; transposed, C x K/G x taps.
            channels: (K,), or (G, K/G) where the filter is a transposed convolution's.
        """
        self.emit = call.emit
        self.value = filters
        self.bias = call.floats(WEIGHTS, BIAS)[1] if call.has(BIAS) else None
        if self.bias is not None:
            call.shaped(self.bias, (prod(channels),), "its bias")
        normalization = call.follower("BatchNormalization", PARAMETERS)
        if normalization is None or not call.is_known(WEIGHTS):
            return
        scale, shift = scale_and_shift(normalization, element_of(filters), prod(channels))
        call.take(normalization)
        element = element_of(filters)
        self._scale(scale, channels)

        def shifted(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            total, *others = args
            for other in others:
                total = body.insert(arith.AddfOp(total, other))
            return rounded(body, total, element)

        terms = [shift]
        if self.bias is not None:
            terms.append(self.emit.elementwise([self.bias, scale], _multiply, element_of(scale)))
        self.bias = self.emit.elementwise(terms, shifted, element)

    @property
    def summed_in(self) -> AnyFloat:
        """The elements of a result that the bias is yet to be added to: rounded once, with it."""
        element = element_of(self.value)
        return element if self.bias is None else wide_of(element)

    def _scale(self, scale: SSAValue, channels: tuple[int, ...]) -> None:
        """Multiply each filter with the scale of its output channel."""
        shape = shape_of(self.value)
        outer, *taps = shape
        split = [outer] if len(channels) == 1 else [channels[0], outer // channels[0]]
        factors = [*channels[:1], *([1] * (len(split) - 1)), *channels[1:]]
        factors += [1] * (len(split) + len(taps) - len(factors))
        parts = self.emit.reshape(self.value, [*split, *taps])
        element = element_of(self.value)
        scaled = self.emit.elementwise(
            [parts, self.emit.reshape(scale, factors)],
            lambda body, args: rounded(body, _multiply(body, args), element),
            element,
        )
        self.value = self.emit.reshape(scaled, shape)

    def with_bias(self, y: SSAValue) -> SSAValue:
        """N x K x positions with the bias added to each channel."""
        if self.bias is None:
            return y
        per_channel = [*shape_of(self.bias), *([1] * (len(shape_of(y)) - 2))]
        element, wide = element_of(self.value), element_of(y)

        def add(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            total = body.insert(arith.AddfOp(args[0], widened(body, args[1], wide)))
            return rounded(body, total, element)

        return self.emit.elementwise([y, self.emit.reshape(self.bias, per_channel)], add, element)


def _multiply(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    """In the type of the second one."""
    return body.insert(arith.MulfOp(widened(body, args[0], args[1].type), args[1]))


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}
