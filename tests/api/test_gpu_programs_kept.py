"""Programs for a GPU in the cache: compiled here without one, and opened by another process."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from gpu import compiled_sources, nvrtc_or_skip

from convir.api.compile import Job
from convir.api.prebuild import Missing, missing_kernels, prebuild
from convir.api.sources import source_of
from convir.cli.prebuild import main as convir_prebuild
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cache import object_cache, program_cache
from convir.runtime.cache.program_cache import load_program
from convir.runtime.cuda import early_kernels, planner
from convir.runtime.cuda.plan import CudaPlan
from convir.runtime.devices import CUDA, Device

if TYPE_CHECKING:
    from pathlib import Path

GPU = Device(CUDA, 0, DEFAULT_TARGET)
LINE = (
    "convfp16 -n 1 -c 64 -H 8 -W 8 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1 "
    "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
)
SUM = """
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""

OPENS = """
import json, sys
from contextlib import nullcontext
from types import SimpleNamespace
from convir.runtime.cuda import device, launch, toolkit

launched, loaded = [], []

class Module:
    def load(self, cubin):
        assert cubin.startswith(b"\\x7fELF")
        loaded.append(len(cubin))

    def get_function(self, name):
        return SimpleNamespace(ptr=1, name=name)

class Launches(SimpleNamespace):
    CUDADriverError = RuntimeError
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    def launchKernel(self, *arguments):
        launched.append(arguments[1:7])

    def funcSetAttribute(self, *_):
        pass

stream = SimpleNamespace(ptr=0, synchronize=lambda: None)
cuda = SimpleNamespace(
    Device=lambda index: SimpleNamespace(id=index, use=lambda: None),
    function=SimpleNamespace(Module=Module),
    get_current_stream=lambda: stream,
    runtime=SimpleNamespace(memsetAsync=None),
)
arrays = SimpleNamespace(cuda=cuda, asarray=lambda array: array, ndarray=None, empty=len)
toolkit.cupy = lambda: arrays
toolkit.launches = Launches
toolkit.architecture = lambda: "sm_90a"
launch.Encoder = lambda _: None
device.CudaProgram.scope = lambda self, stream=None: nullcontext()

from convir.api.compile import Job
from convir.api.sources import source_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.devices import CUDA, Device

job = Job(source_of(sys.argv[1], (), 1.0), None, "default", Device(CUDA, 0, DEFAULT_TARGET))
executable = job.compile()
packages = {name.partition(".")[0] for name in sys.modules}
maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
print(json.dumps({
    "compiler": sorted(packages & {"xdsl", "llvmlite"}) + [
        name for name in sys.modules
        if name.startswith(("convir.passes.pipelines", "convir.api.build", "convir.lowering.loops"))
    ],
    "nvrtc": "libnvrtc.so" in maps,
    "loaded": loaded,
    "inputs": [str(spec) for spec in executable.inputs],
}))
"""
"""Opens a program with a driver that only looks at what it is given."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    nvrtc_or_skip()
    monkeypatch.setenv(object_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that NVRTC gets from now on."""
    return compiled_sources(monkeypatch)


def job(source: str = SUM) -> Job:
    return Job(source_of(source, (), 1.0), None, "default", GPU)


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def opened(source: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", OPENS, source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "errors": done.stderr}


def key_of(source: str) -> str:
    key = job(source)._key(None)  # pyright: ignore[reportPrivateUsage]
    assert key is not None
    return key


@pytest.mark.parametrize("source", [SUM, LINE])
def test_another_process_needs_neither_the_compiler_nor_nvrtc(source: str, cache: Path) -> None:
    prebuild(source, DEFAULT_TARGET)
    before = {path: path.stat().st_ino for path in entries(cache)}
    found = opened(source)
    assert found["compiler"] == []
    assert not found["nvrtc"]
    assert len(found["loaded"]) >= 1
    assert found["errors"] == ""
    assert {path: path.stat().st_ino for path in entries(cache)} == before


def test_entries_are_the_users_alone(cache: Path) -> None:
    prebuild(SUM, DEFAULT_TARGET)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in entries(cache)}
    assert modes == {0o600}
    folders = [path for path in (cache, *cache.rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_what_is_read_is_what_was_planned() -> None:
    prebuild(LINE, DEFAULT_TARGET)
    read = load_program(key_of(LINE))
    assert isinstance(read, CudaPlan)
    planned = planner.plan_program(job(LINE).program(), DEFAULT_TARGET)
    assert read.steps == planned.steps
    assert (read.arena_bytes, read.summary) == (planned.arena_bytes, planned.summary)
    assert set(read.cubins) == set(planned.sources)


def test_open_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="leaves sizes open"):
        prebuild(SUM.replace("4x8", "?x8"), DEFAULT_TARGET)


def test_nothing_is_compiled_twice(compiled: list[str]) -> None:
    prebuild(SUM, DEFAULT_TARGET)
    assert len(compiled) == 1
    prebuild(SUM, DEFAULT_TARGET)
    job(f"{SUM}// the same code").plan()
    assert len(compiled) == 1


def test_threads_that_want_one_program_share_the_work(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []
    plan = planner.plan_program

    def counted(program: Any, gpu: Any) -> CudaPlan:
        planned.append(program.name)
        return plan(program, gpu)

    monkeypatch.setattr(early_kernels, "plan_program", counted)
    threads = [threading.Thread(target=job().plan) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == len(planned) == 1


def test_processes_that_want_one_program_race(cache: Path) -> None:
    script = (
        "import sys\n"
        "from convir.api.prebuild import prebuild\n"
        "from convir.lowering.kernels.target import DEFAULT_TARGET\n"
        "prebuild(sys.argv[1], DEFAULT_TARGET)\n"
    )
    racers = [
        subprocess.Popen([sys.executable, "-c", script, SUM], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for racer in racers:
        _, errors = racer.communicate(timeout=120)
        assert (racer.returncode, errors) == (0, "")
    assert len(entries(cache / "programs")) == len(entries(cache / "cubins")) == 1


@pytest.mark.parametrize("folder", ["programs", "cubins"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "removed"])
def test_damaged_entries_are_made_again(folder: str, damage: str, cache: Path) -> None:
    prebuild(SUM, DEFAULT_TARGET)
    (entry,) = entries(cache / folder)
    whole = entry.read_bytes()
    match damage:
        case "truncated":
            entry.write_bytes(whole[: len(whole) // 2])
        case "flipped":
            entry.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
        case _:
            entry.unlink()
    found = opened(SUM)
    assert len(found["loaded"]) == 1
    assert ("corrupt" in found["errors"]) == (damage != "removed")
    assert len(entry.read_bytes()) == len(whole)


def test_another_gpu_or_nvrtc_is_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from convir.runtime.cuda import toolkit  # noqa: PLC0415

    keys = {key_of(SUM)}
    other = Device(CUDA, 0, DEFAULT_TARGET.parse("sm_90a:114:232448:another"))
    given = source_of(SUM, (), 1.0)
    keys.add(str(Job(given, None, "default", other)._key(None)))  # pyright: ignore[reportPrivateUsage]
    tf32 = Job(given, None, "default", GPU, allow_tf32=True)
    keys.add(str(tf32._key(None)))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(toolkit, "nvrtc_stamp", lambda: (14, 0))
    keys.add(key_of(SUM))
    assert len(keys) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(cache: Path) -> None:
    prebuild(SUM, DEFAULT_TARGET)
    for folder in (path for path in (*cache.rglob("*"), cache) if path.is_dir()):
        folder.chmod(0o500)
    try:
        assert opened(SUM)["loaded"]
    finally:
        for folder in (cache, *cache.rglob("*")):
            folder.chmod(0o700)


def test_a_folder_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(object_cache.FOLDER_VARIABLE, str(tmp_path / "file"))
    assert opened(SUM)["loaded"]


def test_prebuild_says_what_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert missing_kernels(LINE, DEFAULT_TARGET) == Missing(1, 1)
    suite = tmp_path / "suite.txt"
    suite.write_text(f"{LINE}\n# nothing\n{LINE}\n")
    arguments = ["--target", "h200", "--commands-file", str(suite)]
    assert convir_prebuild(["--check", *arguments]) == 0
    assert convir_prebuild(arguments) == 0
    assert convir_prebuild(["--check", *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 of 1 programs open without NVRTC",
        "1 of 1 programs are in the cache",
        "1 of 1 programs open without NVRTC",
    ]
    assert missing_kernels(LINE, DEFAULT_TARGET) == Missing(1, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a line, a model, --commands-file or --records"),
        (["--records", "--target", "sm_90a:1:2:none"], "none are shipped for none"),
        (["--records", "--target", "g200"], "is not a GPU"),
    ],
)
def test_prebuild_refuses(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convir_prebuild(arguments) == 2
    assert message in capsys.readouterr().err
