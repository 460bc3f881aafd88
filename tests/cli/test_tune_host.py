"""`convir-bench --tune` on the host: register tiles of planar kernels, found by compilation."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.cli.bench import main
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.implementations import HOST, PLANAR
from convir.lowering.kernels.host.fused_chain.config import rule
from convir.lowering.kernels.host.target import target
from convir.lowering.selection.planar_candidates import machine_of_cpu
from convir.lowering.selection.records.read import read_records
from convir.lowering.selection.records.write import save
from convir.runtime.cache.object_cache import FOLDER_VARIABLE, user_records

if TYPE_CHECKING:
    from pathlib import Path

    from convir.lowering.selection.records.record import Record
    from convir.runtime.executable import Executable

pytestmark = pytest.mark.fast

NCW = "--in_layout NCW --fil_layout NCW --out_layout NCW"
LINE = f"conv --spatial_dim 1 -n 1 -c 6 -W 102 -k 12 -x 3 -q 0 -g 2 -F 1 {NCW}"
DENSE = f"conv --spatial_dim 1 -n 1 -c 100 -W 102 -k 100 -x 3 -q 0 -F 1 {NCW}"


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """What tuning the line wrote into an empty cache."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert main(["--tune", "--repeats", "3", *LINE.split()]) == 0
    (found,) = read_records(user_records())
    return found


def compiled() -> Executable:
    (problem,) = parse_line(LINE).problems.values()
    return convir_compile(str(ModuleOp([function_of("main", problem)])), device="host", threads=1)


def save_fastest(record: Record, config: str) -> None:
    """A record in which one config is much faster than all others."""
    fast = tuple(
        replace(each, us=(1.0, 1.0, 1.0) if each.config == config else (9.0, 9.0, 9.0))
        for each in record.measurements
    )
    save(user_records(), [replace(record, measurements=fast)])


def test_every_tile_is_measured_once(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    assert record.machine == machine_of_cpu(target())
    assert record.measurements[0].config == str(rule(target()))
    codes = [each.code for each in record.measurements]
    assert len(set(codes)) == len(codes) > 1
    assert all(each.us is not None for each in record.measurements)
    capsys.readouterr()
    assert main(["--tune", "--repeats", "3", *LINE.split()]) == 0
    assert "0 kernels measured" in capsys.readouterr().out


def test_kernels_without_tiles_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert main(["--tune", "--repeats", "3", *DENSE.split()]) == 0
    assert "0 kernels measured" in capsys.readouterr().out


def test_the_fastest_tile_is_what_the_next_compilation_takes(record: Record) -> None:
    numbers = np.random.default_rng(0)
    x = numbers.standard_normal((1, 6, 102), dtype=np.float32)
    w = numbers.standard_normal((12, 3, 3), dtype=np.float32)
    results: list[np.ndarray] = []
    for each in record.measurements[:3]:
        save_fastest(record, each.config)
        executable = compiled()
        assert executable.program.summary(HOST) == [each.config]
        results.append(executable(x, w))
    grouped = np.stack([x[0, 3 * (o // 6) : 3 * (o // 6) + 3] for o in range(12)])
    windows = np.lib.stride_tricks.sliding_window_view(grouped, 3, axis=2)
    wanted = np.einsum("odtk,odk->ot", windows.astype(np.float64), w.astype(np.float64))
    for result in results:
        np.testing.assert_allclose(result[0], wanted, atol=1e-5)


def test_what_is_not_legal_is_not_used(record: Record, caplog: pytest.LogCaptureFixture) -> None:
    odd = replace(record.measurements[0], config="planar vectors=5 sums=5", us=(0.1, 0.1, 0.1))
    save(user_records(), [replace(record, measurements=(*record.measurements, odd))])
    with caplog.at_level(logging.WARNING):
        assert compiled().program.summary(HOST) == [PLANAR]
    assert "is not a config of planar kernels" in caplog.text
