"""Depthwise convolutions of channels last: exact on small integers, between guards, at every
vector length that this machine has; epilogues; what is refused."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from host_contractions import BFLOAT, DOUBLE, SINGLE, TARGETS, Case, Types, run, window

from convir.api.compile import compile as convir_compile
from convir.lowering.kernels.host.depthwise_channels_last.blocking import (
    MAX_LINE_TAPS,
    MAX_OUTER_TAPS,
    cut_channels_last,
)
from convir.lowering.kernels.host.depthwise_channels_last.launch import launch
from convir.lowering.kernels.host.operand_stages import OperandStages
from convir.lowering.kernels.host.target import target
from convir.runtime.host.contraction import HostKernel
from convir.runtime.host.jit import AS_EMITTED, compile_ir

if TYPE_CHECKING:
    from pathlib import Path

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget

pytestmark = pytest.mark.fast

HALF: Types = ("f16", "f16", "f16")


def case(channels: int, inputs: tuple[int, ...], *windows: Any, n: int = 2) -> Case:
    return Case(n, channels, channels, inputs, windows, groups=channels)


CASES = {
    "3x3": case(40, (9, 11), window(3, 1, 1), window(3, 1, 1)),
    "whole panels": case(64, (6, 17), window(3, 1, 1), window(3, 1, 1)),
    "one channel more": case(65, (5, 8), window(3, 1, 1), window(3, 1, 1)),
    "one pixel more than a tile": case(33, (3, 9), window(3, 1, 1), window(3, 1, 1)),
    "half a vector": case(9, (7, 7), window(3, 1, 1), window(3, 1, 1)),
    "1x1": case(48, (5, 6), window(1), window(1)),
    "7x7 on a smaller image": case(48, (3, 4), window(7, 1, 3), window(7, 1, 3)),
    "strides": case(70, (9, 12), window(3, 2, 1), window(5, 2, 2)),
    "stride past the filter": case(32, (9, 12), window(2, 3), window(1, 3)),
    "dilation": case(32, (9, 12), window(3, 1, 2, dilation=2), window(3, 1, 3, dilation=3)),
    "even filter": case(32, (8, 9), window(4, 1, 2, high=1), window(2, 1, 0, high=1)),
    "padding at least the filter": case(32, (3, 3), window(3, 1, 4), window(3, 1, 3)),
    "one row": case(96, (1, 40), window(1), window(9, 1, 4)),
    "one column": case(96, (40, 1), window(9, 1, 4), window(1)),
    "along time": case(40, (50,), window(7, 1, 3)),
    "volume": case(24, (4, 5, 6), window(3, 1, 1), window(3, 2, 1), window(3, 1, 1)),
    "one image of many channels": case(300, (2, 2), window(3, 1, 1), window(3, 1, 1), n=1),
}


def compiled(spec: Contraction, cpu: CpuTarget) -> HostKernel:
    """The kernel of this family."""
    plan = launch(spec, cpu)
    return HostKernel(plan, compile_ir(plan.ir, exports=plan.entries, cpu=cpu, options=AS_EMITTED))


def takes(spec: Contraction, cpu: str) -> bool:
    return cut_channels_last(spec, OperandStages(spec, target(cpu)).lanes) is not None


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("types", [SINGLE, BFLOAT, HALF, DOUBLE], ids=lambda types: types[0])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_small_integers(name: str, types: Types, cpu: str) -> None:
    given = replace(CASES[name], types=types)
    if not takes(given.spec("fprop"), cpu):
        # A copy in f32 is read where no instruction widens f16.
        assert (types, cpu) == (HALF, "x86-64")
        return
    run(given, "fprop", cpu, compiled=compiled)


@pytest.mark.parametrize("types", [SINGLE, BFLOAT], ids=lambda types: types[0])
@pytest.mark.parametrize("name", [name for name in CASES if "stride" not in name])
def test_gradients_of_stride_one(name: str, types: Types) -> None:
    given = replace(CASES[name], types=types)
    spec = given.spec("dgrad")
    if len(spec.phases) == 1:
        run(given, "dgrad", "host", compiled=compiled)
    else:
        assert not takes(spec, "host")


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("cpu", TARGETS)
def test_more_than_a_cache_holds(cpu: str, stride: int) -> None:
    """What the next tile reads and stores is asked for where a panel has parts of cache lines."""
    given = case(44, (70, 67), window(3, stride, 1), window(3, stride, 1), n=1)
    run(given, "fprop", cpu, compiled=compiled)


@pytest.mark.parametrize(
    ("cpu", "types", "asks"),
    [
        ("x86-64-v3", SINGLE, True),
        ("x86-64-v3", BFLOAT, True),
        ("x86-64-v4", SINGLE, False),
    ],
)
def test_what_is_asked_for(cpu: str, types: Types, asks: bool) -> None:
    given = replace(case(64, (9, 16), window(3, 1, 1), window(3, 1, 1)), types=types)
    assert ("@llvm.prefetch" in launch(given.spec("fprop"), target(cpu)).ir) == asks


def test_threads() -> None:
    run(CASES["strides"], "fprop", "host", threads=2, compiled=compiled)


@pytest.mark.parametrize(
    "given",
    [
        case(40, (9, 64), window(1), window(MAX_LINE_TAPS + 1, 1, 8)),
        case(40, (300, 9), window(MAX_OUTER_TAPS + 1, 1, 128), window(3, 1, 1)),
        replace(CASES["3x3"], orders=(1, 0, 1)),
        replace(CASES["3x3"], accumulate=True),
        replace(CASES["3x3"], k=80),
        replace(CASES["3x3"], groups=20),
        replace(CASES["half a vector"], c=3, k=3, groups=3),
    ],
    ids=["long lines", "many lines", "planes", "sums", "two results", "two channels", "few"],
)
def test_what_is_refused(given: Case) -> None:
    spec = given.spec("fprop")
    assert not takes(spec, "x86-64-v4")
    with pytest.raises(ValueError, match="not a depthwise convolution of floats whose channels"):
        launch(spec, target("x86-64-v4"))


def block(dtype: Any) -> Any:
    """1x1, depthwise with a bias, a residual and a Relu, 1x1: channels last within."""
    helper, numpy_helper = (import_module(f"onnx.{name}") for name in ("helper", "numpy_helper"))
    rng = np.random.default_rng(0)
    channels = 37
    weights = {
        "w0": rng.integers(-1, 2, (channels, 4, 1, 1)),
        "w1": rng.integers(-2, 3, (channels, 1, 3, 3)),
        "b1": rng.integers(-3, 4, (channels,)),
        "w2": rng.integers(0, 2, (8, channels, 1, 1)) * (rng.random((8, channels, 1, 1)) < 0.1),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["wide"]),
        helper.make_node("Conv", ["wide", "w1", "b1"], ["own"], group=channels, pads=[1] * 4),
        helper.make_node("Add", ["own", "wide"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["positive"]),
        helper.make_node("Conv", ["positive", "w2"], ["y"]),
    ]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", code, (2, 4, 9, 15))],
        [helper.make_tensor_value_info("y", code, (2, 8, 9, 15))],
        [numpy_helper.from_array(array.astype(dtype), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_epilogues(dtype: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `peers`)")
    from onnx_cases import onnxruntime_results  # noqa: PLC0415  (brings onnxruntime along)

    x = np.random.default_rng(1).integers(-2, 3, (2, 4, 9, 15))
    (expected,) = onnxruntime_results(block(np.float32), {"x": x.astype(np.float32)})
    path = tmp_path / "block.onnx"
    import_module("onnx").save(block(dtype), path)
    executable = convir_compile(path, device="host")
    assert "depthwise-channels-last" in executable.program.summary("host")
    result = executable(x.astype(dtype))
    # Each number is an integer that bf16 has.
    assert np.abs(expected).max() <= 256
    np.testing.assert_array_equal(result.astype(np.float32), expected)


def limits_of(dtype: Any) -> Any:
    """What `ml_dtypes` knows of a type."""
    return getattr(ml_dtypes, "finfo")(dtype)  # noqa: B009  (untyped)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_results_of_every_class(dtype: Any, relu: bool, tmp_path: Path) -> None:
    """Subnormal numbers, which an instruction that rounds may flush, ties, infinities and NaNs."""
    helper, numpy_helper = (import_module(f"onnx.{name}") for name in ("helper", "numpy_helper"))
    channels = 64
    info = limits_of(dtype)
    tiny = float(info.smallest_subnormal)
    specials = [tiny, -3 * tiny, float(info.tiny), 1.0, float(info.max), np.inf, -np.inf, np.nan]
    x = np.random.default_rng(0).choice(specials, (1, channels, 1, 24)).astype(dtype)
    factors = [0.5, 0.75, 1.0, 1.0078125, -1.0, 2.0, 1.00390625, 0.0]
    w = np.resize(np.array(factors), (channels, 1, 1, 1)).astype(dtype)
    nodes = [helper.make_node("Conv", ["x", "w"], ["own" if relu else "y"], group=channels)]
    if relu:
        nodes.append(helper.make_node("Relu", ["own"], ["y"]))
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = (helper.make_tensor_value_info(name, code, x.shape) for name in ("x", "y"))
    graph = helper.make_graph(
        nodes, "classes", *([end] for end in ends), [numpy_helper.from_array(w, "w")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    path = tmp_path / "classes.onnx"
    import_module("onnx").save(model, path)
    executable = convir_compile(path, device="host")
    with np.errstate(all="ignore"):
        exact = x.astype(np.float32) * w.reshape(1, channels, 1, 1).astype(np.float32)
        expected = exact.astype(dtype)
        if relu:
            expected = np.where(np.isnan(exact), expected, np.maximum(expected, dtype(0)))
    np.testing.assert_array_equal(executable(x).astype(float), expected.astype(float))
