"""Missing parts of the CUDA world: each is one line that says what to install or change."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu import cupy_or_skip

from convir.api.compile import compile as convir_compile
from convir.cli.run import main as convir_run
from convir.lowering.kernels.cuda.launch import CudaKernel, Pointer, TensorMap
from convir.runtime import devices
from convir.runtime.arrays.border import ArrayBorder
from convir.runtime.cuda import launch, toolkit
from convir.runtime.cuda.cublas import load_cublas
from convir.runtime.cuda.streams import OnDevice, stream_of
from convir.runtime.program import TensorSpec

pytestmark = pytest.mark.fast

NEGATION = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


class FakeError(Exception):
    """Stands for CuPy's `CUDARuntimeError`."""


class FakeStream:
    """Stands for `cupy.cuda.Stream`."""

    null: Any = object()

    def __init__(self, device_id: int = -1, ptr: int = 0) -> None:
        self.device_id = device_id
        self.ptr = ptr

    @staticmethod
    def from_external(owner: Any) -> FakeStream:
        return FakeStream(ptr=owner.__cuda_stream__()[1])


def fake_cupy(
    *,
    gpus: int | str = 1,
    driver: int = 13000,
    capability: str = "90",
) -> Any:
    """A CuPy whose driver finds so many GPUs, or fails with the error of that name."""

    def device_count() -> int:
        if isinstance(gpus, str):
            raise FakeError(gpus)
        return gpus

    runtime = SimpleNamespace(
        CUDARuntimeError=FakeError,
        getDeviceCount=device_count,
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: 13020,
    )
    return SimpleNamespace(
        cuda=SimpleNamespace(
            runtime=runtime,
            Device=lambda index=0: SimpleNamespace(id=index, compute_capability=capability),
            Stream=FakeStream,
        )
    )


def headers_in(folder: str | None) -> Any:
    """A `cuda.pathfinder` that finds CUDA's headers there."""

    def find(name: str) -> str | None:
        assert name == "cudart"
        return folder

    return SimpleNamespace(find_nvidia_header_directory=find)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Modules by name that importing gives instead of the real ones; an exception is raised."""
    fakes: dict[str, Any] = {
        "cupy": fake_cupy(),
        "cupy_backends.cuda.libs.nvrtc": SimpleNamespace(getVersion=lambda: (13, 0)),
        "cuda.pathfinder": headers_in("/include"),
    }

    def fake_import(name: str) -> Any:
        found = fakes[name]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(toolkit, "import_module", fake_import)
    return fakes


def missing(name: str) -> ImportError:
    return ImportError(f"{name}: cannot open shared object file\nand much more")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cupy": ImportError("No module named 'cupy'")},
            (
                "CuPy is not installed or cannot be loaded (No module named 'cupy'): "
                "pip install 'convir[cuda]', which has cupy-cuda13x"
            ),
        ),
        (
            {"cupy": fake_cupy(gpus="cudaErrorInsufficientDriver", driver=0)},
            "there is no NVIDIA driver: install one for CUDA 13",
        ),
        (
            {"cupy": fake_cupy(gpus="cudaErrorInsufficientDriver", driver=12040)},
            (
                "the NVIDIA driver is too old: it is for CUDA 12.4, CuPy for CUDA 13.2; "
                "update the driver, or install cupy-cuda12x"
            ),
        ),
        (
            {"cupy": fake_cupy(gpus="cudaErrorNoDevice: no CUDA-capable device is detected")},
            "the NVIDIA driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES",
        ),
        (
            {"cupy": fake_cupy(gpus=0)},
            "the NVIDIA driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES",
        ),
        (
            {"cupy": fake_cupy(gpus="cudaErrorUnknown: no idea")},
            "the NVIDIA driver cannot be used: cudaErrorUnknown: no idea",
        ),
        (
            {"cupy": fake_cupy(capability="75")},
            "GPU number 0 has compute capability 7.5, kernels need 8.0 or newer",
        ),
        (
            {"cupy_backends.cuda.libs.nvrtc": missing("libnvrtc.so.13")},
            (
                "NVRTC is not installed or cannot be loaded (libnvrtc.so.13: cannot open shared "
                "object file): pip install 'convir[cuda]', which has nvidia-cuda-nvrtc"
            ),
        ),
        (
            {"cuda.pathfinder": headers_in(None)},
            "CUDA's headers are not installed: pip install 'convir[cuda]'",
        ),
    ],
    ids=[
        "no CuPy",
        "no driver",
        "old driver",
        "no GPU",
        "no GPU visible",
        "broken driver",
        "old GPU",
        "no NVRTC",
        "no headers",
    ],
)
def test_no_gpu_can_be_used(
    changes: dict[str, Any],
    message: str,
    world: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    toolkit.require_gpu(0)
    world.update(changes)
    with pytest.raises(toolkit.NoGpuError) as refusal:
        convir_compile(NEGATION, device="cuda")
    assert str(refusal.value) == message

    path = tmp_path / "negation.mlir"
    path.write_text(NEGATION)
    assert convir_run([str(path), "--device", "cuda"]) == 2
    assert capsys.readouterr().err == f"convir-run: error: --device cuda: {message}\n"

    # A machine without NVIDIA's driver is not told that it has no GPU.
    for driver, level in ((tmp_path, logging.WARNING), (tmp_path / "none", logging.INFO)):
        monkeypatch.setattr(devices, "_NVIDIA_DRIVER", str(driver))
        devices.automatic_device.cache_clear()
        caplog.clear()
        try:
            with caplog.at_level(logging.INFO, logger="convir.runtime.devices"):
                for _ in range(2):
                    assert devices.find_device("auto").kind == "host"
            told = [(r.levelno, r.getMessage()) for r in caplog.records]
            assert told == [(level, f"running on the host: {message}")]
        finally:
            devices.automatic_device.cache_clear()


def test_a_gpu_that_is_not_there(world: dict[str, Any]) -> None:
    world["cupy"] = fake_cupy(gpus=2)
    assert devices.find_device("cuda:1") == devices.Device("cuda", 1)
    with pytest.raises(toolkit.NoGpuError, match="there is no GPU number 2: the driver finds 2"):
        devices.find_device("cuda:2")


def test_a_missing_cublas(world: dict[str, Any]) -> None:
    def not_found(name: str) -> None:
        raise RuntimeError(f"lib{name}.so: not found\nin many places")

    world["cuda.pathfinder"] = SimpleNamespace(load_nvidia_dynamic_lib=not_found)
    load_cublas.cache_clear()
    with pytest.raises(toolkit.NoGpuError) as refusal:
        load_cublas()
    assert str(refusal.value) == (
        "cuBLAS is not installed or cannot be loaded (libcublas.so: not found): "
        "pip install 'convir[cuda]', which has nvidia-cublas"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            MemoryError("Out of memory allocating 1,024 bytes."),
            "Out of memory allocating 1,024 bytes",
        ),
        (
            RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        ),
        (
            RuntimeError("cuBLAS fails: CUBLAS_STATUS_ALLOC_FAILED"),
            "cuBLAS fails: CUBLAS_STATUS_ALLOC_FAILED",
        ),
    ],
    ids=["pool", "driver", "cuBLAS"],
)
def test_out_of_memory(error: Exception, reason: str) -> None:
    entered: list[str] = []

    class Device:
        id = 1
        mem_info = (3 << 20, 80 << 30)

        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *_: object) -> None:
            entered.append("out")

    with pytest.raises(toolkit.GpuMemoryError) as refusal, OnDevice(Device()):
        raise error
    assert str(refusal.value) == (
        "cuda:1 is out of memory, 3 of its 81920 MiB are free: free arrays and "
        "cupy.get_default_memory_pool().free_all_blocks(), use smaller batches, or set "
        f"workspace_bytes ({reason})"
    )
    assert entered == ["in", "out"]
    with pytest.raises(ZeroDivisionError), OnDevice(Device()):
        raise ZeroDivisionError


def test_tensor_maps_need_no_binding_of_the_driver(
    world: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world["cuda.bindings.driver"] = ImportError("No module named 'cuda.bindings'")
    world["cupy_backends.cuda.api.driver"] = SimpleNamespace(launchKernel=None)

    def loaded(source: str, symbol: str) -> Any:
        return SimpleNamespace(ptr=1, name=symbol)

    monkeypatch.setattr(launch, "load_kernel", loaded)
    rows = TensorMap(Pointer("input"), "f16", (64, 64), (128,), (64, 64), 128)
    kernel = CudaKernel("", "copy", (1, 1, 1), (128, 1, 1), 0, (Pointer("output"), rows))
    places = {Pointer("output"): (1, 0), Pointer("input"): (0, 0)}
    assert len(launch.LoadedKernel(kernel, places).maps) == 1
    with pytest.raises(toolkit.NoGpuError) as refusal:
        toolkit.driver()
    assert str(refusal.value) == (
        "CUDA's Python binding is not installed or cannot be loaded (No module named "
        "'cuda.bindings'): pip install 'convir[cuda]', which has cuda-bindings"
    )


HIDDEN = """
import logging, sys
import convir

logging.basicConfig(format="%(levelname)s %(message)s")
text = sys.stdin.read()
for _ in range(2):
    print(convir.compile(text, device="auto").program is not None)
try:
    convir.compile(text, device="cuda")
except RuntimeError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.gpu
def test_a_gpu_that_is_hidden() -> None:
    """The real driver, with nothing to show: one warning from `auto`, one error from `cuda`."""
    cupy_or_skip()
    hidden = subprocess.run(
        [sys.executable, "-c", HIDDEN],
        input=NEGATION,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    reason = "the NVIDIA driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES"
    assert hidden.stderr == f"WARNING running on the host: {reason}\n"
    assert hidden.stdout == f"True\nTrue\nNoGpuError {reason}\n"


def test_out_of_memory_in_a_tool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    path = tmp_path / "negation.mlir"
    path.write_text(NEGATION)

    def fails(*_: object, **__: object) -> None:
        raise toolkit.GpuMemoryError("cuda:0 is out of memory")

    monkeypatch.setattr("convir.cli.jobs.compiled_function.compile_module", fails)
    assert convir_run([str(path), "--device", "host"]) == 1
    assert capsys.readouterr().err == "convir-run: error: cuda:0 is out of memory\n"


def test_streams_of_other_libraries(world: dict[str, Any]) -> None:
    assert stream_of(0, 0) is stream_of(1, 0)
    assert stream_of(4096, 0).ptr == 4096
    torch_stream = SimpleNamespace(cuda_stream=64, device=SimpleNamespace(index=1))
    assert stream_of(torch_stream, 1).ptr == 64
    with pytest.raises(ValueError, match="belongs to cuda:1, the program to cuda:0"):
        stream_of(torch_stream, 0)
    with pytest.raises(ValueError, match="belongs to cuda:2, the program to cuda:0"):
        stream_of(FakeStream(device_id=2), 0)
    protocol = SimpleNamespace(__cuda_stream__=lambda: (0, 128))
    assert stream_of(protocol, 0).ptr == 128
    for nonsense in ("fast", -1, 1.5, True):
        with pytest.raises(TypeError, match=r"a stream's address, is expected"):
            stream_of(nonsense, 0)


class FakeArray:
    """Stands for an array of another GPU's."""

    def __init__(self, device: int) -> None:
        self.device = SimpleNamespace(id=device)


def test_arrays_of_another_gpu_are_refused() -> None:
    border = ArrayBorder(SimpleNamespace(ndarray=FakeArray), device=1)
    spec = TensorSpec((4,), np.dtype(np.float32))
    message = "argument 0 lies on cuda:0, the program on cuda:1: copy it there first"
    with pytest.raises(ValueError, match=message):
        border.argument(FakeArray(0), spec, 0)
    with pytest.raises(ValueError, match="out 0 lies on cuda:2, the program on cuda:1"):
        border.destination(FakeArray(2), spec, 0)
    with pytest.raises(TypeError, match="out 0 lies on the host, the program on cuda:1"):
        border.destination(np.zeros(4, np.float32), spec, 0)
