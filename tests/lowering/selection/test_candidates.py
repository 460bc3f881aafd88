"""What tuning measures: candidates of a kernel, the likely ones, and modules with one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.implementations import GEMM
from convir.lowering.kernels.host.fused_chain.config import legal_tiles, rule
from convir.lowering.kernels.host.target import target
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.candidates import candidates_for, machine_for
from convir.lowering.selection.gpu_option import gpu_of, target_of, todays_option
from convir.lowering.selection.kernel_candidates import Candidates
from convir.lowering.selection.planar_candidates import PlanarCandidates, machine_of_cpu
from convir.lowering.selection.tune import tunable
from convir.passes import run
from convir.runtime.devices import HOST, Device
from convir.runtime.executable import Executable
from convir.runtime.program import Launch
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

pytestmark = pytest.mark.fast

NCW = "--in_layout NCW --fil_layout NCW --out_layout NCW"
LINE = f"conv --spatial_dim 1 -n 1 -c 6 -W 102 -k 12 -x 3 -q 0 -g 2 -F 1 {NCW}"
INVERTED = """
func.func @inverted(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.reduce { arith.mulf } ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>)
    dimensions = [1]
  func.return %0 : tensor<4xf32>
}
"""


def module_of(*names: str) -> ModuleOp:
    """One convolution along frames as functions of these names, and one reduction."""
    (problem,) = parse_line(LINE).problems.values()
    module = read_module(INVERTED)
    module.body.block.add_ops([function_of(name, problem) for name in names])
    return run(module, "default").module


def test_kernels_that_compute_the_same_are_tuned_once() -> None:
    found = tunable(module_of("first", "second"), None)
    (tuned,) = found.kernels
    assert tuned.regions == (1, 2)
    assert found.machine == machine_for(None) == machine_of_cpu(target())
    assert found.machine.units == 1
    config = list(tuned.candidates.launches)[-1]
    lowered = found.lowered(tuned, config)
    kernels = [op for op in lowered.walk() if isinstance(op, kernel.FuncOp)]
    assert [config in str(op.configs) for op in kernels].count(True) == len(kernels) - 1
    assert not any(isinstance(op, kernel.RegionOp) for op in lowered.walk())
    assert any(isinstance(op, kernel.RegionOp) for op in found.module.walk())


def test_a_kernel_as_a_program_of_its_own() -> None:
    found = tunable(module_of("first"), None)
    (tuned,) = found.kernels
    alone = found.alone(tuned)
    assert not any(alone.computed)
    for config in list(tuned.candidates.launches)[:2]:
        program = read_program(alone.lowered(config), "main")
        (launch,) = program.calls
        assert isinstance(launch, Launch)
        whole = read_program(found.lowered(tuned, config), "first")
        rng = np.random.default_rng(0)
        operands = [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in whole.inputs]
        results: list[Any] = []
        for each in (program, whole):
            shaped = [x.reshape(s.shape) for x, s in zip(operands, each.inputs, strict=True)]
            results.append(Executable(Device(HOST).load(each))(*shaped))
        assert np.array_equal(results[0].ravel(), results[1].ravel())


def test_tiles_of_a_planar_kernel() -> None:
    (tuned,) = tunable(module_of("first"), None).kernels
    candidates = tuned.candidates
    assert isinstance(candidates, PlanarCandidates)
    tiles = list(map(str, legal_tiles(target())))
    assert list(candidates.codes) == [tile for tile in tiles if tile in candidates.codes]
    assert len(set(candidates.codes.values())) == len(candidates.codes) > 1
    assert next(iter(candidates.codes)) == str(rule(target()))
    assert (
        dict(candidates.likely(0))
        == dict(candidates.launches)
        == dict.fromkeys(candidates.codes, ())
    )
    assert candidates.refusal(tiles[0]) is None
    assert isinstance(candidates.refusal("no tile"), Refusal)
    assert candidates.signature.startswith("planar 1x12x100 ")
    assert len(candidates.signature.split()[-1]) == 12
    assert not candidates.tf32
    assert machine_for(DEFAULT_TARGET) != machine_for(None)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, ["a 1", "b 1", "in side 1", "in out 1"]),
        (4, ["a 1", "a 2", "a 3", "a 4", "b 1", "in side 1", "in out 1"]),
        (
            5,
            ["a 1", "a 2", "a 3", "a 4", "a 5", "b 1", "b 2", "in side 1", "in side 2", "in out 1"],
        ),
    ],
)
def test_the_preferred_family_is_measured_most(
    most: int, expected: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convir.lowering.selection.kernel_candidates.INNER_WORDS", {"in": 2})
    problem: Any = None
    candidates = Candidates(problem, DEFAULT_TARGET, has_gemm=True)
    of_a, of_b = ([f"{name} {i}" for i in range(1, 7)] for name in "ab")
    inner = ["in side 1", "in out 1", "in side 2", "in side 3"]
    launches = [*of_a[:2], GEMM, *of_b, *inner, *of_a[2:]]
    candidates.__dict__["launches"] = dict.fromkeys(launches, ())
    assert sorted(candidates.likely(most)) == sorted([GEMM, *expected])
    assert candidates.refusal(GEMM) is None
    without = replace(candidates, has_gemm=False)
    assert without.refusal(GEMM) == Refusal("it is not a GEMM of the library")


def test_legal_configs_are_in_the_order_of_predictions() -> None:
    text = """
    kernel.func @k(%a: tensor<256x128xf16>, %b: tensor<128x64xf16>, %o: tensor<256x64xf32>)
        -> tensor<256x64xf32> {
      %0 = linalg.matmul ins(%a, %b : tensor<256x128xf16>, tensor<128x64xf16>)
        outs(%o : tensor<256x64xf32>) -> tensor<256x64xf32>
      kernel.return %0 : tensor<256x64xf32>
    }
    """
    (function,) = read_module(text).ops
    assert isinstance(function, kernel.FuncOp)
    candidates = candidates_for(function, DEFAULT_TARGET)
    assert isinstance(candidates, Candidates)
    assert candidates.has_gemm
    launches = candidates.launches
    assert launches[GEMM] == ()
    others = [config for config in launches if config != GEMM]
    assert others
    assert all(launches[config] for config in others)
    assert all(candidates.refusal(config) is None for config in others[:2])
    assert isinstance(candidates.refusal("no config"), Refusal)


def test_options_that_say_a_target(caplog: pytest.LogCaptureFixture) -> None:
    assert gpu_of(str(DEFAULT_TARGET)) == DEFAULT_TARGET
    assert target_of("cuda", None) == DEFAULT_TARGET
    assert target_of("cuda", str(DEFAULT_TARGET)) == DEFAULT_TARGET
    assert target_of("host", None) == target()
    assert todays_option("cuda", "a", None) == "a"
    assert todays_option("cuda", "a", "b") == "a"
    assert todays_option("cuda", None, "b") == "b"
    assert todays_option("host", None, "b") is None
    assert len(caplog.records) <= 1
