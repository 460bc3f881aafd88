"""LSTM, GRU and RNN in all their forms, beside onnxruntime, and in f16 and bf16 beside f64."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import Array, onnxruntime_results
from onnx_nodes import FLOATS, one_node, results_of

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model
from convir.frontends.onnx.ops.recurrent import MAX_STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, INPUTS, UNITS = 4, 3, 5, 6


def arrays_of(op: str, directions: int = 1, **shapes: Any) -> dict[str, Array]:
    """The inputs of a layer; those that are left out are of no shape."""
    rng, size = np.random.default_rng(5), GATES[op] * UNITS
    every = {
        "x": (STEPS, BATCH, INPUTS),
        "w": (directions, size, INPUTS),
        "r": (directions, size, UNITS),
        "b": (directions, 2 * size),
        "lengths": None,
        "h": (directions, BATCH, UNITS),
        **({"c": (directions, BATCH, UNITS), "p": None} if op == "LSTM" else {}),
        **shapes,
    }
    arrays: dict[str, Array] = {}
    for number, (name, shape) in enumerate(every.items()):
        if shape is None:
            arrays[" " * number] = np.zeros(0)  # A name that is left out.
        else:
            arrays[name] = (rng.random(shape) - 0.5).astype(np.float32)
    while not list(arrays)[-1].strip():
        arrays.popitem()
    return arrays


def check(op: str, arrays: Mapping[str, Array], **attributes: Any) -> None:
    """Beside onnxruntime, with everything as an input, and with the weights as constants."""
    wanted = [np.dtype(np.float32)] * (3 if op == "LSTM" else 2)
    made = one_node(op, arrays, wanted, hidden_size=UNITS, **attributes)
    made.opset_import[0].version = 17
    feeds = {name: array for name, array in arrays.items() if name.strip()}
    expected = onnxruntime_results(made, feeds)
    known = {name: feeds[name] for name in ("w", "r", "b", "p", "lengths") if name in feeds}
    for constants in ({}, known):
        results = results_of(op, arrays, wanted, constants, hidden_size=UNITS, **attributes)
        for result, one in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, one, rtol=0, atol=2e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_directions(op: str, direction: str) -> None:
    check(op, arrays_of(op, 2 if direction == "bidirectional" else 1), direction=direction)


@pytest.mark.parametrize("op", GATES)
def test_lengths(op: str) -> None:
    """Of sequences that end earlier: of all directions, what is behind the end is 0."""
    arrays = arrays_of(op, 2, lengths=(BATCH,))
    arrays["lengths"] = np.array([4, 2, 3], np.int32)
    check(op, arrays, direction="bidirectional")


@pytest.mark.parametrize("op", GATES)
def test_no_bias_and_no_states(op: str) -> None:
    left_out: dict[str, Any] = {"b": None, "h": None, **({"c": None} if op == "LSTM" else {})}
    check(op, arrays_of(op, **left_out))


def test_forms_of_an_lstm() -> None:
    check("LSTM", arrays_of("LSTM", p=(1, 3 * UNITS)))
    check("LSTM", arrays_of("LSTM"), clip=0.25)
    check("LSTM", arrays_of("LSTM"), input_forget=1)
    check("LSTM", arrays_of("LSTM"), activations=["HardSigmoid", "Relu", "Softsign"])
    check(
        *("LSTM", arrays_of("LSTM", 2)),
        direction="bidirectional",
        activations=["HardSigmoid", "LeakyRelu", "Tanh", "Sigmoid", "Elu", "Affine"],
        activation_alpha=[0.3, 0.05, 0.8, 0.9],
        activation_beta=[0.4, 0.2],
    )


def test_forms_of_a_gru() -> None:
    for linear in (0, 1):
        check("GRU", arrays_of("GRU", 2), direction="bidirectional", linear_before_reset=linear)
    check("GRU", arrays_of("GRU"), clip=0.25)


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("op", GATES)
def test_elements_round_once(op: str, element: str) -> None:
    """States are f32 inside, however many steps there are."""
    dtype = FLOATS[element]
    arrays = {name: array.astype(dtype) for name, array in arrays_of(op, 2, lengths=None).items()}
    outputs = 3 if op == "LSTM" else 2
    attributes: dict[str, Any] = {"hidden_size": UNITS, "direction": "bidirectional"}
    if op == "GRU":
        attributes["linear_before_reset"] = 1  # as PyTorch's is
    results = results_of(op, arrays, [dtype] * outputs, **attributes)
    expected = in_f64(op, {name: array.astype(np.float64) for name, array in arrays.items()})
    ulp = {"f16": 2.0**-10, "bf16": 2.0**-7, "f64": 1e-13}[element]
    for result, one in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), one, rtol=ulp, atol=1e-6 * ulp**0.1)


def in_f64(op: str, given: Mapping[str, Array]) -> list[Array]:
    """What PyTorch computes of the same weights in f64."""
    torch: Any = import_module("torch")
    order = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}[op]  # its order of gates

    def gates(array: Array) -> Any:
        parts = np.split(array, GATES[op])
        return torch.from_numpy(np.concatenate([parts[gate] for gate in order]))

    layer = getattr(torch.nn, op)(INPUTS, UNITS, bidirectional=True, dtype=torch.float64)
    for number, suffix in enumerate(("l0", "l0_reverse")):
        layer.__dict__["_parameters"][f"weight_ih_{suffix}"].data = gates(given["w"][number])
        layer.__dict__["_parameters"][f"weight_hh_{suffix}"].data = gates(given["r"][number])
        biases = np.split(given["b"][number], 2)
        for kind, bias in zip(("ih", "hh"), biases, strict=True):
            layer.__dict__["_parameters"][f"bias_{kind}_{suffix}"].data = gates(bias)
    states = [torch.from_numpy(given[name]) for name in ("h", "c") if name in given]
    with torch.no_grad():
        y, last = layer(
            torch.from_numpy(given["x"]), tuple(states) if len(states) > 1 else states[0]
        )
    both = y.numpy().reshape(STEPS, BATCH, 2, UNITS).transpose(0, 2, 1, 3)
    return [both, *(one.numpy() for one in (last if op == "LSTM" else [last]))]


REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "weights of another size": (
        *("LSTM", {"w": (1, 3, INPUTS)}, {}),
        "its weights has the shape [1, 3, 5], not [1, 24, 5]",
    ),
    "one direction of two": (
        *("GRU", {}, {"direction": "bidirectional"}),
        "its weights has the shape [1, 18, 5], not [2, 18, 5]",
    ),
    "a state of another batch": (
        *("RNN", {"h": (1, 7, UNITS)}, {}),
        "a state has the shape [1, 7, 6], not [1, 3, 6]",
    ),
    "an unknown activation": (
        *("RNN", {}, {"activations": ["ScaledTanh"]}),
        "the activation ScaledTanh is not supported",
    ),
    "too few activations": ("LSTM", {}, {"activations": ["Tanh"]}, "1 activations of 1 x 3"),
    "too many steps": (
        *("RNN", {"x": (MAX_STEPS + 1, BATCH, INPUTS)}, {}),
        f"{MAX_STEPS + 1} steps are not supported, only 1 to {MAX_STEPS}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    op, shapes, attributes, message = REFUSED[case]
    wanted = [np.dtype(np.float32)] * 2
    arrays = arrays_of(op, **shapes)
    made = one_node(op, arrays, wanted, hidden_size=UNITS, **attributes)
    with pytest.raises(OnnxError) as error:
        import_model(made)
    assert message in str(error.value)
