"""Machine code in reports: assembly of a CPU's kernels, SASS where a tool gives it."""

from __future__ import annotations

import random
import stat
from typing import TYPE_CHECKING

import pytest

import convir
from convir.report.codes import MOST_MACHINE_CODE
from convir.runtime.bench.peers.onnx_networks import resnet50
from convir.runtime.cuda.toolchain import compile as toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from convir.report.collect import Record

LINE = "convfp16 -n 8 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1"
MOST_BYTES = 2_000_000
"""Of the page of ResNet-50."""


def codes(report: Record) -> dict[str, str]:
    """By language, the code of the first kernel that has some."""
    kernel = next(kernel for kernel in report["kernels"] if kernel["codes"])
    return {
        code["language"]: "\n".join(report["lines"][number] for number in code["text"])
        for code in kernel["codes"]
    }


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put an `nvdisasm` that runs a script on the path, alone."""
    tool = folder / "nvdisasm"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def compiled(monkeypatch: pytest.MonkeyPatch, code: bytes | None) -> None:
    """Let the cache have this cubin of every source."""

    def stored_code(source: str, arch: str) -> bytes | None:
        assert source
        assert arch == "sm_90a"
        return code

    monkeypatch.setattr(toolchain, "stored_code", stored_code)


@pytest.mark.fast
def test_a_kernel_of_a_cpu_has_its_assembly() -> None:
    found = codes(convir.explain(LINE, device="cpu").data)
    assert [*found] == ["LLVM IR", "assembly"]
    assert "\tretq" in found["assembly"]
    assert ".cfi_" not in found["assembly"]


@pytest.mark.fast
def test_sass_is_what_a_tool_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, 'echo ".text.kernel: $1"; cat "$2"')
    compiled(monkeypatch, b"HGMMA.64x64x16.F32")
    found = codes(convir.explain(LINE, device="h200").data)
    assert [*found] == ["CUDA C++", "SASS"]
    assert found["SASS"].startswith(".text.kernel: --print-code\nHGMMA.64x64x16.F32")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("echo 'not a cubin' >&2; exit 3", b"?", "there is none: nvdisasm: not a cubin"),
        ("exit 3", b"?", "there is none: nvdisasm: exit 3"),
        ("exit 0", None, "there is none: it was not compiled for sm_90a on this machine"),
    ],
)
def test_where_there_is_no_sass_it_says_why(
    script: str,
    code: bytes | None,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(tmp_path, monkeypatch, script)
    compiled(monkeypatch, code)
    assert codes(convir.explain(LINE, device="h200").data)["SASS"].startswith(reason)


@pytest.mark.fast
def test_without_a_tool_there_is_no_sass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [*codes(convir.explain(LINE, device="h200").data)] == ["CUDA C++"]


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_the_page_of_a_network_is_small(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed: pip install 'convir[onnx]'")
    numbers = random.Random(0)
    lines = [
        f"        /*{16 * i:04x}*/                   FFMA R{numbers.randrange(255)}, "
        f"R{numbers.randrange(255)}, R{numbers.randrange(255)}, R{numbers.randrange(255)} ;"
        for i in range(2 * MOST_MACHINE_CODE // 60)
    ]
    (tmp_path / "sass").write_text("\n".join(lines))
    # As long for each kernel as may be, and no two alike.
    install(tmp_path, monkeypatch, f'sed "s/FFMA/FFMA.$$/" {tmp_path}/sass')
    compiled(monkeypatch, b"code")
    report = convir.explain(resnet50(), device=device, shapes=[(1, 3, 224, 224)])
    found = codes(report.data)
    assert all(0 < len(text) <= 2 * MOST_MACHINE_CODE for text in [*found.values()][1:])
    assert "characters more" in found.get("SASS", "characters more")
    assert len(report.html()) < MOST_BYTES
