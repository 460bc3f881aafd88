"""From a `.nam` file to what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.frontends.nam.activations import PRELU, read_activation
from convir.frontends.nam.errors import NamError
from convir.frontends.nam.fields import Fields
from convir.frontends.nam.model import (
    FILMS,
    Activation,
    Film,
    Gating,
    Head,
    Layer,
    LayerArray,
    NamFile,
    OneByOne,
    WaveNet,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.frontends.elements import Array

WAVENET = "WaveNet"
CONTAINER = "SlimmableContainer"

MAX_DEPTH = 8
"""Models in models: containers in containers, or what makes a condition of a condition."""

MAX_LAYERS = 4096
"""Layers of one array."""


def read_nam(file: str | Path, size: float = 1.0) -> NamFile:
    """The model in a `.nam` file.

    Args:
        file: its path.
        size: which of a `SlimmableContainer`'s models: the first whose `max_value` is at least
            this, from 0 (the smallest) to 1 (the largest). Other files have one model.

    Raises:
        NamError: the file cannot be read, or says something that is not supported.
    """
    name = str(file)
    try:
        text = Path(file).read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except OSError as error:
        raise NamError(name, error.strerror or str(error)) from error
    except ValueError as error:
        raise NamError(name, f"is not JSON: {error}") from error
    except RecursionError:
        raise NamError(name, "is nested too deeply") from None
    model = _chosen(Fields.of(name, "", content), size)
    return NamFile(name, _sample_rate(model), _wavenet(model))


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the file, whose fields must differ."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the field {twice!r} twice")
    return fields


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _sample_rate(model: Fields) -> float:
    """Frames a second; 0 where the file does not say it."""
    if not model.has("sample_rate"):
        return 0.0
    rate = model.number("sample_rate")
    if rate <= 0:
        raise model.error("sample_rate", f"is {rate:g}, not above 0")
    return rate


def _chosen(model: Fields, size: float, depth: int = 0) -> Fields:
    """The model itself, or one of the models that it contains, which is in `depth` others."""
    if model.text("architecture") != CONTAINER:
        return model
    _refuse_depth(model, depth)
    candidates = model.inner("config").inners("submodels")
    if not candidates:
        raise model.error("config.submodels", "is empty")
    for candidate in candidates:
        if candidate.number("max_value") >= size:
            return _chosen(candidate.inner("model"), size, depth + 1)
    return _chosen(candidates[-1].inner("model"), size, depth + 1)


def _refuse_depth(model: Fields, depth: int) -> None:
    """Raise the error of a model that is in more than a few others."""
    if depth > MAX_DEPTH:
        raise NamError(model.file, f"has models in models, more than {MAX_DEPTH} deep")


def _wavenet(model: Fields, depth: int = 0) -> WaveNet:
    _refuse_depth(model, depth)
    architecture = model.text("architecture")
    if architecture != WAVENET:
        raise model.error("architecture", f"'{architecture}' is not supported, only {WAVENET}")
    config = model.inner("config")
    condition = config.inner("condition_dsp") if config.has("condition_dsp") else None
    config.number("head_scale", 1.0)  # The last of the weights is what counts.
    net = WaveNet(
        input_channels=config.integer("in_channels", 1),
        arrays=tuple(map(_array, config.inners("layers"))),
        head=_head(config.inner("head")) if config.has("head") else None,
        condition=None if condition is None else _wavenet(condition, depth + 1),
        path=model.path,
        weights=_weights(model),
    )
    config.refuse_others()
    return net


def _weights(model: Fields) -> Array:
    with np.errstate(over="ignore"):
        weights = np.array(model.numbers("weights"), np.float64).astype(np.float32)
    if not np.isfinite(weights).all():
        raise model.error("weights", "holds a number that f32 does not")
    return weights


def _array(fields: Fields) -> LayerArray:
    if fields.has("slimmable"):
        raise fields.error("slimmable", "is not supported")
    channels = fields.integer("channels")
    head = fields.inner("head") if fields.has("head") else None
    layers = _layers(fields)
    array = LayerArray(
        input_channels=fields.integer("input_size"),
        condition_channels=fields.integer("condition_size"),
        channels=channels,
        bottleneck=fields.integer("bottleneck", channels),
        layers=layers,
        groups=fields.integer("groups_input", 1),
        mixin_groups=fields.integer("groups_input_mixin", 1),
        layer1x1=_one_by_one(fields, "layer1x1", channels, active=True),
        head1x1=_one_by_one(fields, "head1x1", channels, active=False),
        films=_films(fields, layers),
        head_channels=fields.integer("head_size") if head is None else head.integer("out_channels"),
        head_kernel_size=1 if head is None else head.integer("kernel_size"),
        head_dilation=1 if head is None else head.integer("head_dilation", 1),
        head_bias=fields.flag("head_bias") if head is None else head.flag("bias"),
    )
    fields.refuse_others("gated", "head_size", "head_bias", "secondary_activation")
    if head is not None:
        head.refuse_others()
    return array


def _layers(fields: Fields) -> tuple[Layer, ...]:
    dilations = fields.integers("dilations")
    count = len(dilations)
    if count > MAX_LAYERS:
        raise fields.error("dilations", f"has {count} entries, more than {MAX_LAYERS}")
    if fields.has("kernel_sizes") == fields.has("kernel_size"):
        raise fields.error("kernel_size", "or else kernel_sizes is expected")
    sizes = (
        _as_many(fields, "kernel_sizes", fields.integers("kernel_sizes"), count)
        if fields.has("kernel_sizes")
        else [fields.integer("kernel_size")] * count
    )
    activations = [
        read_activation(fields, "activation", value) for value in _each(fields, "activation", count)
    ]
    gatings = _gatings(fields, count)
    seconds = _each(fields, "secondary_activation", count, "Sigmoid")
    return tuple(
        Layer(
            kernel_size=sizes[i],
            dilation=dilations[i],
            activation=activations[i],
            gating=gatings[i],
            second_activation=_second(fields, gatings[i], seconds[i]),
        )
        for i in range(count)
    )


def _second(fields: Fields, gating: Gating, value: Any) -> Activation | None:
    if gating is Gating.NONE:
        return None
    return read_activation(fields, "secondary_activation", value)


def _gatings(fields: Fields, count: int) -> list[Gating]:
    if not fields.has("gating_mode"):
        return [Gating.GATED if fields.flag("gated", False) else Gating.NONE] * count
    modes = {mode.value: mode for mode in Gating}
    names = _each(fields, "gating_mode", count)
    for name in names:
        if name not in modes:
            raise fields.error("gating_mode", f"is {name!r}; known are {', '.join(modes)}")
    return [modes[name] for name in names]


def _each(fields: Fields, key: str, count: int, default: Any = None) -> Sequence[Any]:
    """What a field says for each layer: a list, or one value for all."""
    value = fields.raw(key, default) if default is not None else fields.raw(key)
    if not isinstance(value, list):
        return [value] * count
    return _as_many(fields, key, fields.array(key), count)


def _as_many(fields: Fields, key: str, values: Sequence[Any], count: int) -> Sequence[Any]:
    if len(values) != count:
        raise fields.error(key, f"has {len(values)} entries for {count} dilations")
    return values


def _one_by_one(fields: Fields, key: str, channels: int, *, active: bool) -> OneByOne | None:
    """A 1x1 convolution that a layer may have, by default one of `channels` channels."""
    if not fields.has(key):
        return OneByOne(channels, 1) if active else None
    inner = fields.inner(key)
    is_active = inner.flag("active", active)
    one = OneByOne(inner.integer("out_channels", channels), inner.integer("groups", 1))
    inner.refuse_others()
    return one if is_active else None


def _films(fields: Fields, layers: Sequence[Layer]) -> dict[str, Film]:
    films: dict[str, Film] = {}
    for key in FILMS:
        if not fields.has(key) or fields.raw(key) is False:
            continue
        inner = fields.inner(key)
        is_active = inner.flag("active", True)
        film = Film(inner.flag("shift", True), inner.integer("groups", 1))
        inner.refuse_others()
        if is_active:
            films[key] = film
    for key, owner in (("layer1x1_post_film", "layer1x1"), ("head1x1_post_film", "head1x1")):
        if key in films and _one_by_one(fields, owner, 1, active=owner == "layer1x1") is None:
            raise fields.error(key, f"is active without a {owner}")
    return films


def _head(fields: Fields) -> Head:
    activation = read_activation(fields, "activation", fields.raw("activation"))
    if activation.kind == PRELU:
        raise fields.error("activation", "with a slope for each channel is not supported")
    head = Head(
        channels=fields.integer("channels"),
        output_channels=fields.integer("out_channels"),
        kernel_sizes=fields.integers("kernel_sizes"),
        activation=activation,
    )
    fields.refuse_others()
    return head
