"""A process that compiles and drops one program after the other stays as large as it was."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from gpu import cupy_or_skip

from convir.api.compile import compile as convir_compile
from convir.lowering.loops.llvm.llvm_binding import llvm
from convir.runtime.host import linker
from convir.runtime.host.jit import AS_EMITTED, compile_ir

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "compile_memory.py"
PROGRAMS = 300
"""Of which the first hundred are not counted."""
MOST_BYTES = 10_000_000 * (PROGRAMS - 100) // 900
"""A thousand programs may leave 10 MB behind."""


def grown(device: str, folder: Path) -> dict[str, float]:
    report = folder / "report.json"
    command = [sys.executable, str(SCRIPT), "--device", device, "--json", str(report)]
    subprocess.run([*command, f"--programs={PROGRAMS}"], check=True, timeout=500)
    return json.loads(report.read_text())["rows"][-1]


def test_dropped_programs_leave_nothing_on_the_host(tmp_path: Path) -> None:
    assert grown("host", tmp_path)["process"] < MOST_BYTES


@pytest.mark.gpu
def test_dropped_programs_leave_nothing_on_a_gpu(tmp_path: Path) -> None:
    cupy_or_skip()
    row = grown("cuda", tmp_path)
    assert row["process"] < MOST_BYTES
    if "PYTEST_XDIST_WORKER" not in os.environ:  # Others use the GPU's memory meanwhile.
        assert row["gpu"] < MOST_BYTES


def test_a_dropped_program_goes_at_once() -> None:
    executable = convir_compile(
        """
        func.func @main(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
          %0 = arith.addf %x, %x : tensor<4x5xf32>
          return %0 : tensor<4x5xf32>
        }
        """,
        device="host",
    )
    loaded = weakref.ref(executable.loaded)
    gc.collect()
    gc.disable()
    try:
        del executable
        assert loaded() is None
    finally:
        gc.enable()


def test_linkers_go_with_their_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[object]] = []
    create = llvm.create_lljit_compiler

    def counted(*arguments: object, **options: object) -> object:
        made.append(weakref.ref(found := create(*arguments, **options)))
        return found

    monkeypatch.setattr(llvm, "create_lljit_compiler", counted)
    monkeypatch.setattr(linker, "LIBRARIES_PER_LINKER", 4)
    kept = None
    for number in range(40):
        ir = f"define i64 @number() {{\n  ret i64 {number}\n}}"
        library = compile_ir(ir, exports=("number",), options=AS_EMITTED)
        kept = kept or library
        del library
    assert len(made) in (10, 11)
    assert sum(one() is not None for one in made) <= 2  # that of the one kept, and the last
    assert kept is not None
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(kept.address("number"))() == 0
