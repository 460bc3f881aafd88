"""The layers of a WaveNet, in the order in which they compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith

from convir.frontends.emitter import shape_of
from convir.frontends.nam.model import FILMS, Gating
from convir.frontends.nam.stages import product
from convir.frontends.nam.weights import Weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.nam.model import Head, Layer, LayerArray, WaveNet
    from convir.frontends.nam.stages import Filter, Stages


def emit_wavenet(stages: Stages, net: WaveNet, x: SSAValue) -> SSAValue:
    """The output of a WaveNet for the block `x`, f32[1, channels, frames].

    Raises:
        NamError: the widths of its parts do not fit each other, or its weights do not fit them.
    """
    condition = x if net.condition is None else emit_wavenet(stages, net.condition, x)
    weights = Weights(stages.source, net)
    head: SSAValue | None = None
    for index, array in enumerate(net.arrays):
        where = f"{net.path}.config.layers[{index}]".lstrip(".")
        _check_widths(stages, array, where, x, condition, head)
        x, head = _emit_array(stages, weights, array, condition, x, head)
    if head is None:
        raise stages.error(f"{net.path}.config.layers".lstrip(".") + " is empty")
    filters = _head_filters(stages, weights, net.head, shape_of(head)[1])
    head = stages.scaled(head, weights.last())
    for w in filters:
        assert net.head is not None
        head = stages.convolution(stages.activated(head, net.head.activation), w)
    return head


def _check_widths(
    stages: Stages,
    array: LayerArray,
    where: str,
    x: SSAValue,
    condition: SSAValue,
    head: SSAValue | None,
) -> None:
    for name, value, expected in (
        ("input_size", x, array.input_channels),
        ("condition_size", condition, array.condition_channels),
        ("what the array before it gives its head", head, array.head_input_channels),
    ):
        if value is not None and shape_of(value)[1] != expected:
            message = f"{name} is {expected}, it gets {shape_of(value)[1]} channels"
            raise stages.error(f"{where}: {message}")


def _head_filters(
    stages: Stages, weights: Weights, head: Head | None, channels: int
) -> Sequence[Filter]:
    """The convolutions behind the last array."""
    if head is None:
        return ()
    widths = [head.channels] * (len(head.kernel_sizes) - 1) + [head.output_channels]
    filters: list[Filter] = []
    for width, taps in zip(widths, head.kernel_sizes, strict=True):
        filters.append(stages.filter(weights, channels, width, taps=taps, bias=True))
        channels = width
    return filters


def _emit_array(
    stages: Stages,
    weights: Weights,
    array: LayerArray,
    condition: SSAValue,
    x: SSAValue,
    head: SSAValue | None,
) -> tuple[SSAValue, SSAValue]:
    """What an array gives the next one: its last layer's output, and its head's."""
    rechannel = stages.filter(weights, array.input_channels, array.channels, bias=False)
    filters = [_LayerFilters.take(stages, weights, array, layer) for layer in array.layers]
    head_filter = stages.filter(
        weights,
        array.head_input_channels,
        array.head_channels,
        taps=array.head_kernel_size,
        bias=array.head_bias,
    )
    x = stages.convolution(x, rechannel)
    for layer, w in zip(array.layers, filters, strict=True):
        x, to_head = _Layer(stages, layer, w, condition).emit(x)
        head = to_head if head is None else stages.sum(head, to_head)
    assert head is not None
    return x, stages.convolution(head, head_filter, array.head_dilation)


@dataclass(frozen=True)
class _LayerFilters:
    """The weights of a layer, in the order of the file."""

    conv: Filter
    mixin: Filter
    layer1x1: Filter | None
    head1x1: Filter | None
    films: Mapping[str, Filter]

    @staticmethod
    def take(stages: Stages, weights: Weights, array: LayerArray, layer: Layer) -> _LayerFilters:
        """The next weights as those of a layer."""
        wide = array.bottleneck * (1 if layer.gating is Gating.NONE else 2)
        condition = array.condition_channels
        conv = stages.filter(
            weights, array.channels, wide, taps=layer.kernel_size, groups=array.groups, bias=True
        )
        mixin = stages.filter(weights, condition, wide, groups=array.mixin_groups, bias=False)
        layer1x1, head1x1 = (
            one
            and stages.filter(weights, array.bottleneck, one.channels, groups=one.groups, bias=True)
            for one in (array.layer1x1, array.head1x1)
        )
        widths = {
            "conv_pre_film": array.channels,
            "conv_post_film": wide,
            "input_mixin_pre_film": condition,
            "input_mixin_post_film": wide,
            "activation_pre_film": wide,
            "activation_post_film": array.bottleneck,
            "layer1x1_post_film": array.channels,
            "head1x1_post_film": array.head_input_channels,
        }
        films: dict[str, Filter] = {}
        for name in FILMS:
            film = array.films.get(name)
            if film is not None:
                outputs = widths[name] * (2 if film.shift else 1)
                films[name] = stages.filter(
                    weights, condition, outputs, groups=film.groups, bias=True
                )
        return _LayerFilters(conv, mixin, layer1x1, head1x1, films)


@dataclass(frozen=True)
class _Layer:
    stages: Stages
    layer: Layer
    filters: _LayerFilters
    condition: SSAValue

    def emit(self, x: SSAValue) -> tuple[SSAValue, SSAValue]:
        """What the layer gives the next one, and what it adds to the head."""
        stages, filters = self.stages, self.filters
        seen = stages.convolution(self._film("conv_pre_film", x), filters.conv, self.layer.dilation)
        mixed = self._film("input_mixin_pre_film", self.condition)
        mixed = self._film("input_mixin_post_film", stages.convolution(mixed, filters.mixin))
        z = stages.sum(self._film("conv_post_film", seen), mixed)
        z = self._activated(self._film("activation_pre_film", z))
        z = self._film("activation_post_film", z)
        to_head = z
        if filters.head1x1 is not None:
            to_head = self._film("head1x1_post_film", stages.convolution(z, filters.head1x1))
        if filters.layer1x1 is None:
            return x, to_head
        out = stages.convolution(z, filters.layer1x1)
        if self.layer.gating is Gating.BLENDED:
            # The format's own implementation knows this FiLM only here.
            out = self._film("layer1x1_post_film", out)
        return stages.sum(x, out), to_head

    def _film(self, name: str, x: SSAValue) -> SSAValue:
        w = self.filters.films.get(name)
        return x if w is None else self.stages.film(x, self.condition, w)

    def _activated(self, z: SSAValue) -> SSAValue:
        layer, stages = self.layer, self.stages
        if layer.second_activation is None:
            return stages.activated(z, layer.activation)
        half = shape_of(z)[1] // 2
        first, second = stages.channels(z, 0, half), stages.channels(z, half, half)
        active = stages.activated(first, layer.activation)
        gate = stages.activated(second, layer.second_activation)
        if layer.gating is Gating.GATED:
            return stages.emit.elementwise([active, gate], product)
        return stages.emit.elementwise([gate, active, first], _blend)


def _blend(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    """alpha · active + (1 - alpha) · passed."""
    alpha, active, passed = args
    rest = body.insert(arith.SubfOp(body.number(1, alpha.type), alpha))
    kept = body.insert(arith.MulfOp(rest, passed))
    return body.insert(arith.AddfOp(body.insert(arith.MulfOp(alpha, active)), kept))
