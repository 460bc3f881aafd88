"""Configs that are measured when a program is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from gpu import cupy_or_skip

import convir
from convir.api import autotune
from convir.api.build import Build
from convir.api.sources import source_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.records.read import read_records
from convir.lowering.selection.records.record import Measurement, Record
from convir.runtime.cache import object_cache, program_cache
from convir.runtime.devices import CUDA, Device

if TYPE_CHECKING:
    from pathlib import Path

    from convir.lowering.selection.records.record import Key
    from convir.lowering.selection.tune import Tunable

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def model(dtype: Any) -> Any:
    """Two convolutions with epilogues, of different kernels."""
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(64, 96, 1), torch.nn.ReLU(), torch.nn.Conv2d(96, 64, 3, padding=1))
    return torch.nn.Sequential(*layers).eval().to(dtype)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(object_cache.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    return tmp_path / "records.jsonl"


def test_what_is_not_measured(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the host nothing is; on a GPU not what has a record."""
    x = torch.zeros(2, 64, 16, 16)
    made = convir.compile(model(torch.float32), device="host", example_inputs=(x,), autotune=True)
    torch.testing.assert_close(made(x), model(torch.float32)(x))
    assert not records.exists()
    module = autotune_module()
    known = [
        Record(module.machine, each.candidates.signature, "", (Measurement("gemm", "", (1, 1, 1)),))
        for each in module.kernels
    ]
    table = {record.key: record for record in known}

    def tables(*_: object) -> list[dict[Key, Record]]:
        return [table]

    def told(done: int, count: int) -> None:
        raise AssertionError(f"{done} of {count} measured")

    monkeypatch.setattr(autotune, "records_of", tables)
    autotune.autotune(module, Device(CUDA, 0, DEFAULT_TARGET), told)


def autotune_module() -> Tunable:
    x = torch.zeros(2, 64, 16, 16, dtype=torch.float16)
    source = source_of(model(torch.float16), (), 1.0, None, (x,))
    return Build(source, None, "default", Device(CUDA, 0, DEFAULT_TARGET), None).tunable()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_measured_configs_are_taken(records: Path, dtype: Any) -> None:
    cupy_or_skip()
    x = torch.randn(2, 64, 16, 16, device="cuda").to(dtype)
    wanted = model(torch.float64)(x.double().cpu())
    steps: list[str] = []

    def compiled(*, again: bool) -> Any:
        steps.clear()
        made = convir.compile(
            model(dtype),
            device="cuda",
            example_inputs=(x,),
            autotune=True,
            progress=steps.append,
        )
        near = 8 * float(torch.finfo(dtype).eps)
        torch.testing.assert_close(made(x).double().cpu(), wanted, rtol=near, atol=near)
        assert bool(steps) is not again  # Then it is in the cache.
        return made

    compiled(again=False)
    known = read_records(records)
    assert len(known) == 2
    summary = str(compiled(again=True).loaded.plan.summary)
    for record in known:
        assert len(record.measurements) > 1
        assert record.best is not None
        assert record.best.config in summary
