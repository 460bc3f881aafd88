"""Kernels compiled side by side: the same cubins and errors, whoever compiles."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from gpu import nvrtc_or_skip

from convir.runtime.cache import object_cache
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda.toolchain import compilers
from convir.runtime.cuda.toolchain.compile import compile_cubin, compile_cubins, kernel_usage
from convir.runtime.cuda.toolchain.nvrtc import NvrtcProcess

if TYPE_CHECKING:
    from pathlib import Path

ARCH = "sm_90a"


def kernel(number: int) -> str:
    return (
        '#include "arith/scalars.cuh"\n'
        f'extern "C" __global__ void k(float* p) {{ p[threadIdx.x] = {number}; }}'
    )


SOURCES = [kernel(number) for number in range(4)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc_or_skip()
    monkeypatch.setenv(object_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture(params=["threads", "processes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(compilers, "MOST_THREADS", 100 if request.param == "threads" else 0)
    return request.param


def test_equal_cubins(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    def tell(done: int, count: int) -> None:
        told.append((done, count))

    made = compile_cubins([*SOURCES, SOURCES[0]], ARCH, tell)
    assert told == [(number, 4) for number in (1, 2, 3, 4)]
    assert "k" in kernel_usage(SOURCES[2], ARCH)
    assert {source: each.content for source, each in compile_cubins(SOURCES, ARCH).items()} == {
        source: each.content for source, each in made.items()
    }
    monkeypatch.setenv(object_cache.FOLDER_VARIABLE, str(tmp_path / "other"))
    for source in SOURCES:
        assert compile_cubin(source, ARCH) == made[source].content


def test_a_refused_source(way: str) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_cubins([*SOURCES, "int x = ;"], ARCH)
    assert "expected an expression" in refusal.value.log
    assert refusal.value.source == "int x = ;"


def test_a_process_that_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compilers, "MOST_THREADS", 0)
    begin = NvrtcProcess.__init__

    def with_nothing(self: NvrtcProcess, library: str) -> None:
        begin(self, f"{library}.of.nobody")

    monkeypatch.setattr(NvrtcProcess, "__init__", with_nothing)
    with caplog.at_level(logging.WARNING):
        assert len(compile_cubins(SOURCES, ARCH)) == len(SOURCES)
    assert "compiling here instead" in caplog.text
