"""Configs of a signature's kernel beside the one that selection takes; no GPU is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import GEMM
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.kernel_candidates import Candidates
from convir.pytorch.compile import configs
from convir.pytorch.compile.compilation import Wanted, source_of
from convir.pytorch.compile.configs import SELECTED, plans_of
from convir.pytorch.layouts import strides_of
from convir.pytorch.signature import Options, Signature, Tensor
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.plan import CudaPlan, PlannedLaunch

if TYPE_CHECKING:
    from pathlib import Path

try:
    toolkit.nvrtc()
except toolkit.NoGpuError as error:
    pytest.skip(str(error), allow_module_level=True)


def signature(*, taps: int, bias: bool = True, channels: int = 64) -> Signature:
    shapes = ((8, channels, 14, 14), (128, channels, taps, taps), (8, 128, 14, 14))
    x, w, y = (Tensor(shape, strides_of(shape, "last")) for shape in shapes)
    pads = (taps // 2, taps // 2)
    options = Options((1, 1), pads, (1, 1), transposed=False, output_padding=(0, 0), groups=1)
    return Signature("forward", "f16", (x, w), y, bias=bias, options=options, device="cuda:0")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CONVIR_PROGRAM_CACHE", raising=False)


def plans(wanted: Wanted) -> dict[str, CudaPlan]:
    source = source_of(wanted.signature)
    assert not isinstance(source, Refusal)
    found = plans_of(wanted, source, DEFAULT_TARGET)
    assert not isinstance(found, Refusal)
    return dict(found)


def test_further_configs_are_other_kernels() -> None:
    found = plans(Wanted(signature(taps=3), 1 << 26, further=2))
    assert len(found) == 3
    assert next(iter(found)) == SELECTED
    for config, plan in found.items():
        assert config == SELECTED or plan.summary == (config,)
    assert len({plan.summary for plan in found.values()}) == 3


def test_a_librarys_product_is_one_of_them() -> None:
    """For a 1x1 convolution, wherever it is predicted to stand."""
    source = source_of(asked := signature(taps=1, bias=False, channels=2048))
    assert not isinstance(source, Refusal)
    found = configs._tunable(Wanted(asked, 1 << 26), source, DEFAULT_TARGET)  # pyright: ignore[reportPrivateUsage]
    assert not isinstance(found, Refusal)
    candidates = found[1].candidates
    assert isinstance(candidates, Candidates)
    ordered = candidates.fastest(10_000)
    assert ordered.count(GEMM) == 1
    assert len(ordered) == len(set(ordered)) > 20
    assert candidates.fastest(3) == ordered[:3]


def test_none_are_made_unless_asked_for() -> None:
    assert list(plans(Wanted(signature(taps=3), 1 << 26))) == [SELECTED]


def test_a_config_again_is_read_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Wanted(signature(taps=3), 1 << 26, further=1)
    _, (config, plan) = plans(asked).items()
    monkeypatch.setattr(configs, "_tunable", _never)
    again = plans(replace(asked, config=config, further=0))
    assert list(again) == [config]
    steps = [each for each in again[config].steps if isinstance(each, PlannedLaunch)]
    assert [kernel.source for step in steps for kernel in step.kernels] == list(plan.sources)


def _never(*_: object) -> None:
    raise AssertionError


def test_a_config_that_is_none() -> None:
    source = source_of(signature(taps=3))
    assert not isinstance(source, Refusal)
    wanted = Wanted(signature(taps=3), 1 << 26, config="simt_direct 77x77")
    found = plans_of(wanted, source, DEFAULT_TARGET)
    assert isinstance(found, Refusal)
    assert "simt_direct" in found.reason


def test_what_takes_too_much_memory() -> None:
    source = source_of(signature(taps=3))
    assert not isinstance(source, Refusal)
    found = plans_of(Wanted(signature(taps=3), 0, further=2), source, DEFAULT_TARGET)
    assert not isinstance(found, Refusal)
    for plan in found.values():
        assert plan.arena_bytes == 0
