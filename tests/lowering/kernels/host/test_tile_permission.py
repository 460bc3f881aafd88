"""The permission for tile registers: asked for once, and a refusal is said."""

from __future__ import annotations

import ctypes
import logging
from typing import TYPE_CHECKING

import pytest

from convir.lowering.kernels.host import target as targets
from convir.lowering.kernels.host import tile_permission
from convir.lowering.kernels.host.target import X86_64_V4_AMX, named
from convir.lowering.loops.llvm.llvm_binding import llvm

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fast

SAPPHIRE_RAPIDS = dict.fromkeys(
    (
        "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512bf16",
        "avx512vnni", "amx-tile", "amx-bf16", "amx-int8",
    ),
    True,
)  # fmt: skip


class _System:
    """A C library whose system call answers `answer`."""

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.asked: list[tuple[int, ...]] = []

    def syscall(self, *arguments: int) -> int:
        self.asked.append(arguments)
        return self.answer


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[_System]:
    """What is asked, on a Sapphire Rapids that a hypervisor calls something else; the parameter is
    the answer."""
    found = _System(request.param)

    def library(*_: object, **__: object) -> _System:
        return found

    monkeypatch.setattr(ctypes, "CDLL", library)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: dict(SAPPHIRE_RAPIDS))
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "rocketlake")
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    tile_permission.may_use_tiles.cache_clear()
    targets.target.cache_clear()
    yield found
    tile_permission.may_use_tiles.cache_clear()
    targets.target.cache_clear()


@pytest.mark.parametrize("system", [0], indirect=True)
def test_tiles_are_used_where_the_system_permits_them(
    system: _System, caplog: pytest.LogCaptureFixture
) -> None:
    host = targets.target()
    assert host.tiles
    assert host.l2_bytes == named(X86_64_V4_AMX).l2_bytes
    assert system.asked == [(158, 0x1023, 18)]
    assert not caplog.records


@pytest.mark.parametrize("system", [-1], indirect=True)
def test_a_refusal_is_said_once(system: _System, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not tile_permission.may_use_tiles()
        assert not targets.target().tiles
    assert len(system.asked) == 1
    assert len(caplog.records) == 1
    assert "the system refuses tile registers" in caplog.text


@pytest.mark.parametrize("system", [0], indirect=True)
def test_pairs_are_not_multiplied_where_that_takes_longer(system: _System) -> None:
    """Whatever a hypervisor calls the processor."""
    del system
    host = targets.target()
    assert not host.bf16_dot
    assert host.bf16_conversion
    assert host.int8_dot


def test_a_cpu_without_tiles_is_not_asked_about() -> None:
    assert not targets.target("x86-64-v4-bf16").tiles
    assert targets.target(X86_64_V4_AMX).tiles
