"""Neural amp models: what NeuralAmpModelerCore makes of the same sound, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from nam_cases import MODELS, Array, expected_of, heard, random_model, sound, wavenet_reference
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc, f32
from xdsl.dialects.func import FuncOp, ReturnOp

from convir.api.compile import compile
from convir.api.stream import stream
from convir.dialects.diagnostics import DiagnosticError, verify
from convir.dialects.stream_attributes import sample_rate_of, states_of
from convir.frontends.emitter import Emitter
from convir.frontends.nam.activations import apply, read_activation
from convir.frontends.nam.fields import Fields
from convir.frontends.nam.importer import import_nam
from convir.frontends.sources import read_source
from convir.reference import FloatFormat, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.fast

TOLERANCE = 2e-6
"""Of an output whose peak is at most 1; relative to the peak beyond that. Builds of the format's
own implementation differ by 5.5e-7 from each other."""

FRAMES = 500


def _main(module: Any) -> FuncOp:
    return next(iter(module.ops))


def _shapes(module: Any) -> list[tuple[int, ...]]:
    """Of the arguments."""
    return [cast("Any", arg.type).get_shape() for arg in _main(module).body.block.args]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_mean_what_the_format_says(path: Path) -> None:
    """On the reference: a block of silence that is longer than the model remembers, then sound.

    In f64, as f32 sums of NumPy's differ from processor to processor by as much as is allowed.
    """
    x, expected = sound(), expected_of(path)
    shapes = _shapes(import_nam(path, frames=1))
    remembered = sum(shape[-1] for shape in shapes[1:])
    module = import_nam(path, frames=remembered + FRAMES)
    verify(module)
    block = np.concatenate([np.zeros(remembered, np.float32), x[:FRAMES]])
    windows = [np.zeros(shape, np.float32) for shape in _shapes(module)[1:]]
    given = [block.reshape(1, 1, -1), *windows]
    y, *after = evaluate(module, "main", given, float_format=FloatFormat.WIDE)
    assert len(after) == len(windows) == states_of(_main(module))
    assert sample_rate_of(_main(module)) in (48000, None)
    error = np.abs(y[0, 0, remembered:] - expected[:FRAMES]).max()
    assert error <= TOLERANCE * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_streams_of_any_blocks(path: Path) -> None:
    x, expected = sound(), expected_of(path)
    model = stream(path)
    for sizes in ((1,), (7,), (64,), (2048,), (3, 100, 64, 1, 500, 17)):
        count = 130 if sizes == (1,) else len(x) if sizes == (64,) else 2200
        model.reset()
        y = heard(model, x, sizes, count)
        error = np.abs(y - expected[: len(y)]).max()
        assert error <= TOLERANCE * max(1.0, np.abs(expected).max()), sizes


@pytest.mark.parametrize("seed", range(8))
def test_random_models(seed: int, tmp_path: Path) -> None:
    """Models of random widths, groups, taps and dilations against an evaluation frame by frame."""
    path = tmp_path / "model.nam"
    content = random_model(np.random.default_rng(seed))
    path.write_text(json.dumps(content))
    x = np.random.default_rng(seed + 100).uniform(-1, 1, 320).astype(np.float32)
    expected = wavenet_reference(content, x)
    y = stream(path).process(x)
    assert np.abs(y - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())


def test_the_smaller_model_of_a_container() -> None:
    container = [path for path in MODELS if path.stem == "A2"]
    if not container:
        pytest.skip("the models of NeuralAmpModelerCore are not here")
    modules = [import_nam(container[0], frames=4, size=size) for size in (0.5, 1)]
    assert [_shapes(module)[1][1] for module in modules] == [3, 8]


def test_blocks_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    path.write_text(json.dumps(random_model(np.random.default_rng(0))))
    model = stream(path, frames=8)
    with pytest.raises(TypeError, match="float64, not float32"):
        model.process(np.zeros(3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"shape \(2, 3\), not \(1, n\)"):
        model.process(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="`out` is"):
        model.process(np.zeros(3, np.float32), out=np.zeros(4, np.float32))
    x32 = np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="takes arrays of float32"):
        model.prepare([0.0], x32)
    with pytest.raises(ValueError, match="takes dense arrays"):
        model.prepare(np.zeros(6, np.float32)[::2], x32)
    with pytest.raises(ValueError, match="`out` is"):
        model.prepare(x32, np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="overlaps the block"):
        model.prepare(x32, x32)
    with pytest.raises(ValueError, match="frames is 0, not at least 1"):
        stream(path, frames=0)
    x = np.random.default_rng(1).uniform(-1, 1, 50).astype(np.float32)
    y = model.process(x)
    model.reset()
    prepared = np.empty_like(x)
    call = model.prepare(x, prepared)
    call()
    np.testing.assert_array_equal(prepared, y)
    model.reset()
    wide = np.zeros((50, 2), np.float32)
    assert model.process(x, out=wide[:, 0]) is not None
    np.testing.assert_array_equal(wide, np.stack([y, np.zeros_like(y)], 1))
    model.reset()
    np.testing.assert_array_equal(model.process(x, out=x), y)
    with pytest.raises(ValueError, match="give the shape of a block"):
        compile(path)


def _without(key: str) -> Any:
    def change(model: dict[str, Any]) -> None:
        del model["config"]["layers"][0][key]

    return change


def _with(key: str, value: Any) -> Any:
    def change(model: dict[str, Any]) -> None:
        model["config"]["layers"][0][key] = value

    return change


def _few_weights(model: dict[str, Any]) -> None:
    del model["weights"][-1]


def _more_weights(value: Any) -> Any:
    def change(model: dict[str, Any]) -> None:
        model["weights"].append(value)

    return change


def _of_another_kind(model: dict[str, Any]) -> None:
    model["architecture"] = "LSTM"


def _of_config(key: str, value: Any) -> Any:
    def change(model: dict[str, Any]) -> None:
        model["config"][key] = value

    return change


def _of_model(key: str, value: Any) -> Any:
    def change(model: dict[str, Any]) -> None:
        model[key] = value

    return change


def _far(model: dict[str, Any]) -> None:
    dilations = model["config"]["layers"][0]["dilations"]
    dilations[:] = [10**7] * len(dilations)


_HEAD = {"channels": 2, "out_channels": 1, "kernel_sizes": [1], "activation": "Tanh"}


def _no_layer1x1(model: dict[str, Any]) -> None:
    _with("layer1x1", {"active": False})(model)
    _with("layer1x1_post_film", {})(model)


def _empty_container(model: dict[str, Any]) -> None:
    model.update(architecture="SlimmableContainer", config={"submodels": []})


def _empty(model: dict[str, Any]) -> None:
    del model["config"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("channels"), r"config\.layers\[0\]\.channels is missing"),
        (_with("channels", 0), r"config\.layers\[0\]\.channels is 0, no number of at least 1"),
        (_with("activation", "Tan"), r"activation\.type is 'Tan'; known are Fasttanh"),
        (_with("gating_mode", "open"), r"gating_mode is 'open'; known are none, gated, blended"),
        (_with("kernel_sizes", [3]), "or else kernel_sizes is expected"),
        (_with("dilations", [1, "2"]), "no list of numbers of at least 1"),
        (_with("activation", ["Tanh"] * 7), "has 7 entries for"),
        (_with("groups_input", 64), "channels have no 64 groups"),
        (_with("input_size", 2), r"config\.layers\[0\]: input_size is 2, it gets 1 channels"),
        (_with("slimmable", {}), "slimmable is not supported"),
        (_few_weights, "weights has"),
        (_more_weights(0.0), "weights has"),
        (_more_weights("x"), "not a finite number"),
        (_of_another_kind, "architecture 'LSTM' is not supported"),
        (_empty, "config is missing"),
        (_with("channels", True), r"channels is True, no number of at least 1"),
        (_with("channels", 2**31), "no number of at least 1 and at most 2147483647"),
        (_with("channels", 10**9), "weights has .* numbers, fewer than its model needs"),
        (_far, "its layers remember .* at most 1048576"),
        (_with("dilations", [1] * 10**5), "dilations has 100000 entries, more than 4096"),
        (_with("kernel", 3), r"config\.layers\[0\]\.kernel is not a field that is supported"),
        (_with("layer1x1", {"active": False, "group": 1}), r"layer1x1\.group is not a field"),
        (_of_config("head_scale", "x"), r"config\.head_scale is 'x', not a finite number"),
        (_of_config("head_scale", 10**400), r"config\.head_scale is 1.*not a finite number"),
        (_of_config("depth", 1), r"config\.depth is not a field that is supported"),
        (_of_model("sample_rate", -1), "sample_rate is -1, not above 0"),
        (_of_model("sample_rate", 0), "sample_rate is 0, not above 0"),
        (_of_model("sample_rate", True), "sample_rate is True, not a finite number"),
        (_of_model("sample_rate", float("inf")), "is not JSON: Infinity is not a number"),
        (_more_weights(1e39), "weights holds a number that f32 does not"),
        (_more_weights(10**400), "weights holds something that is not a finite number"),
        (_more_weights(True), "weights holds something that is not a finite number"),
        (_more_weights(float("nan")), "is not JSON: NaN is not a number"),
        (_with("head_bias", 1), r"head_bias is 1, neither true nor false"),
        (_with("activation", {"type": 3}), r"activation\.type is 3, no string"),
        (_with("dilations", 3), r"dilations is not a list"),
        (_with("dilations", []), r"dilations is \[\], no list of numbers of at least 1"),
        (_with("channels", 0.5), r"channels is 0\.5, no number of at least 1"),
        (_with("activation", {"type": "PReLU", "negative_slopes": []}), "negative_slopes is empty"),
        (_with("activation", {"type": "PReLU", "negative_slopes": [1] * 33}), "a PReLU has 33 sl"),
        (_with("activation", {"type": "PReLU", "slope": 1}), r"activation\.slope is not a field"),
        (_with("activation", {"type": "ReLU", "negative_slope": 1}), "slope is not a field"),
        (_with("condition_size", 2), r"layers\[0\]: condition_size is 2, it gets 1 channels"),
        (_with("head1x1_post_film", {}), "head1x1_post_film is active without a head1x1"),
        (
            _no_layer1x1,
            "layer1x1_post_film is active without a layer1x1",
        ),
        (_of_config("layers", []), r"config\.layers is empty"),
        (_of_config("layers", [3]), r"config\.layers\[0\] is not an object"),
        (
            _of_config("head", {**_HEAD, "activation": {"type": "PReLU", "negative_slopes": [1]}}),
            r"config\.head\.activation with a slope for each channel is not supported",
        ),
        (_of_config("head", {**_HEAD, "bias": True}), r"config\.head\.bias is not a field"),
        (_of_model("architecture", "SlimmableContainer"), r"config\.submodels is missing"),
        (_empty_container, r"config\.submodels is empty"),
    ],
)
def test_errors_say_where(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    content = random_model(np.random.default_rng(1))
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DiagnosticError, match=message):
        import_nam(path, frames=8)


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_other_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    path.write_text(text)
    with pytest.raises(DiagnosticError, match="is not "):
        import_nam(path, frames=8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 200_000, "is nested too deeply"),
        ('{"a":' * 200_000, "is nested too deeply"),
        (
            '{"architecture": "WaveNet", "architecture": "LSTM"}',
            "has the field 'architecture' twice",
        ),
        ('{"architecture": "' + "x" * 10**5 + '"}', "is not supported, only WaveNet"),
        ('{"sample_rate": ' + "9" * 5000 + "}", "is not JSON: "),
        ("\xff", "is not JSON: "),
    ],
)
def test_texts_that_are_no_models(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DiagnosticError, match=message) as caught:
        import_nam(path, frames=8)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("inner", ["condition_dsp", "submodels"])
def test_models_in_models(inner: str, tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    content = random_model(np.random.default_rng(1))
    for _ in range(20):
        if inner == "submodels":
            config: dict[str, Any] = {"submodels": [{"max_value": 1, "model": content}]}
            content = {"architecture": "SlimmableContainer", "config": config}
        else:
            outer = random_model(np.random.default_rng(1))
            outer["config"][inner] = content
            content = outer
    path.write_text(json.dumps(content))
    with pytest.raises(DiagnosticError, match="has models in models, more than 8 deep"):
        import_nam(path, frames=8)


def test_weights_that_change_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    content = random_model(np.random.default_rng(2))
    path.write_text(json.dumps(content))
    module = import_nam(path, frames=4)
    content["weights"] = [2 * weight for weight in content["weights"]]
    path.write_text(json.dumps(content))
    arguments = [np.zeros(shape, np.float32) for shape in _shapes(module)]
    with pytest.raises(DiagnosticError, match="has changed"):
        evaluate(module, "main", arguments)


def _fast_tanh(x: Array) -> Array:
    above = 2.45550750702956 * (1 + np.abs(x)) + x**2 * (
        0.893229853513558 + 0.821226666969744 * np.abs(x)
    )
    bent = np.abs(x + 0.814642734961073 * x * np.abs(x))
    return x * above / (2.44506634652299 + (2.44506634652299 + x**2) * bent)


ACTIVATIONS: dict[str, tuple[dict[str, float], Callable[[Array], Array]]] = {
    "Fasttanh": ({}, _fast_tanh),
    "Hardtanh": ({}, lambda x: np.clip(x, -1, 1)),
    "Hardswish": ({}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "LeakyHardtanh": (
        {"min_val": -2.0, "max_val": 1.5, "min_slope": 0.25, "max_slope": 0.125},
        lambda x: np.select(
            [x < -2, x > 1.5], [(x + 2) * 0.25 - 2, (x - 1.5) * 0.125 + 1.5], default=x
        ),
    ),
    "LeakyReLU": ({"negative_slope": 0.5}, lambda x: np.where(x < 0, x / 2, x)),
    "ReLU": ({}, lambda x: np.maximum(x, 0)),
    "SiLU": ({}, lambda x: x / (1 + np.exp(-x))),
    "Sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "Softsign": ({}, lambda x: x / (1 + np.abs(x))),
    "Tanh": ({}, np.tanh),
}
"""The numbers of each, and what it computes."""


def _activated(value: Any, x: Array) -> Array:
    """What the activation of a file makes of the elements of `x`, f32[n]."""
    activation = read_activation(Fields("model.nam", "", {}), "activation", value)
    function = FuncOp("main", ([TensorType(f32, x.shape)], []))
    block = function.body.block
    emit = Emitter(block, UnknownLoc())
    y = emit.elementwise([block.args[0]], lambda body, args: apply(body, args[0], activation))
    block.add_op(ReturnOp(y))
    function.update_function_type()
    (result,) = evaluate(ModuleOp([function]), "main", [x])
    return result


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    numbers, expected = ACTIVATIONS[name]
    x = np.linspace(-5, 5, 81, dtype=np.float32)
    np.testing.assert_allclose(
        _activated({"type": name, **numbers}, x), expected(x.astype(np.float64)), atol=1e-6
    )


def test_other_words_for_activations() -> None:
    x = np.linspace(-5, 5, 81, dtype=np.float32)
    np.testing.assert_array_equal(_activated("PReLU", x), _activated("LeakyReLU", x))
    np.testing.assert_array_equal(_activated("LeakyHardTanh", x), _activated("LeakyHardtanh", x))
    np.testing.assert_allclose(_activated("LeakyReLU", x), np.where(x < 0, x / 100, x), rtol=1e-6)
    bent = np.select([x < -1, x > 1], [(x + 1) / 100 - 1, (x - 1) / 100 + 1], default=x)
    np.testing.assert_allclose(_activated("LeakyHardtanh", x), bent, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frames": 0}, "a block of 0 frames is none"),
        ({"frames": 2**31}, "a block of 2147483648 frames is none"),
        ({"frames": 4, "room": 3}, "room=3 is none for a block of 4 frames"),
        ({"frames": 4, "room": 2**31}, "room=2147483648 is none"),
        ({"frames": 4, "size": -0.5}, r"size is -0\.5, not from 0 to 1"),
        ({"frames": 4, "size": 1.5}, r"size is 1\.5, not from 0 to 1"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    path.write_text(json.dumps(random_model(np.random.default_rng(2))))
    with pytest.raises(ValueError, match=message):
        import_nam(path, **arguments)


@pytest.mark.parametrize(("size", "channels"), [(0, 1), (0.25, 1), (0.5, 2), (1, 2)])
def test_a_container_gives_the_first_of_a_size(size: float, channels: int, tmp_path: Path) -> None:
    """Or else the last, whatever size it says."""
    models = [random_model(np.random.default_rng(seed)) for seed in range(2)]
    for model, width in zip(models, (1, 2), strict=True):
        layers: dict[str, Any] = {"kernel_size": 2, "dilations": [1], "activation": "Tanh"}
        widths: dict[str, Any] = {"input_size": 1, "condition_size": 1, "channels": width}
        model["config"]["layers"] = [{**layers, **widths, "head_size": 1, "head_bias": False}]
        model["weights"] = [0.5] * (width + 3 * width**2 + 3 * width + width + 1)
    entries = [
        {"max_value": most, "model": model}
        for most, model in zip((0.25, 0.75), models, strict=True)
    ]
    path = tmp_path / "model.nam"
    path.write_text(
        json.dumps({"architecture": "SlimmableContainer", "config": {"submodels": entries}})
    )
    assert _shapes(import_nam(path, frames=4, size=size))[1][1] == channels


def test_blocks_have_the_size_that_a_source_is_given(tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    path.write_text(json.dumps(random_model(np.random.default_rng(2))))
    assert _shapes(read_source(path, shapes=[(1, 1, 64)]))[0] == (1, 1, 64)
    for shapes in ([], [(1, 64)], [None], [(1, 1, 64), (1, 1, 64)]):
        with pytest.raises(ValueError, match="give the shape of a block"):
            read_source(path, shapes=shapes)
