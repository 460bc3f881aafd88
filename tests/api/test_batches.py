"""What serves a batch: the code of another one near it, or a compilation."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip, nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.api.batches import BESIDE, MORE, Batches, Bound, Shapes
from convir.api.build import Build
from convir.api.compile import Job
from convir.api.compile import compile as convir_compile
from convir.api.sources import source_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cache.program_entry import Signature
from convir.runtime.cuda import launch as launch_module
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.device import CudaProgram
from convir.runtime.cuda.plan import PlannedLaunch
from convir.runtime.devices import CUDA, Device
from convir.runtime.dynamic import DynamicExecutable
from convir.runtime.executable import Executable
from convir.runtime.program import Buffer, Fill, Space, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.api.batches import Rebind

F32 = np.dtype(np.float32)
X, W = TensorSpec((-1, 4), F32), TensorSpec((6, 4), F32)
MEMORY = Buffer(Space.ARENA, 0, 0, (4,), F32)


def executable() -> Executable:
    return object.__new__(Executable)


def beside(batch: int) -> list[int]:
    """The batches that are planned, or may be, where `batch` was compiled."""
    return [*range(batch, batch + BESIDE + 1)]


class Compiler:
    """Counts what it is asked for."""

    def __init__(self, inputs: tuple[TensorSpec, ...] = (X, W)) -> None:
        self.compiled: list[Shapes] = []
        self.planned: list[list[int]] = []
        self.bound: list[int] = []
        self.answer: Refusal | None = None
        self.batches = Batches(Signature(inputs, (X,)), self.specialise, self.rebinding)

    def specialise(self, shapes: Shapes) -> Executable:
        self.compiled.append(shapes)
        return executable()

    def rebinding(
        self, arguments: Sequence[int], bound: Sequence[Bound], made: Executable
    ) -> Rebind | Refusal:
        del made
        assert all(each.shapes[i][0] == each.batch for each in bound for i in arguments)
        self.planned.append([each.batch for each in bound])
        if self.answer is not None and self.answer.reason == "raise":
            raise RuntimeError("broken")
        return self.rebind

    def rebind(self, bound: Bound) -> Executable | Refusal:
        if self.answer is not None:
            return self.answer
        self.bound.append(bound.batch)
        return executable()

    def run(self, *batches: int) -> None:
        for batch in batches:
            self.batches.specialise(((batch, 4), (6, 4)))


def test_batches_near_one_that_is_compiled_share_its_code() -> None:
    compiler = Compiler()
    compiler.run(32, 33, 8, 128, 31)
    assert compiler.compiled == [((32, 4), (6, 4))]
    assert compiler.planned == [beside(32)]
    assert compiler.bound == [33, 8, 128, 31]


def test_batches_far_from_it_are_compiled() -> None:
    compiler = Compiler()
    compiler.run(32, 32 * MORE + 1, 33, 32 * MORE + 2)
    assert [shapes[0][0] for shapes in compiler.compiled] == [32, 257]
    assert compiler.bound == [33, 258]


def test_a_batch_of_one_serves_itself() -> None:
    compiler = Compiler()
    compiler.run(1, 2, 3)
    assert [shapes[0][0] for shapes in compiler.compiled] == [1, 2]
    assert compiler.planned == [beside(2)]


@pytest.mark.parametrize("reason", ["other code", "raise"])
def test_what_cannot_be_bound_is_compiled(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    compiler = Compiler()
    compiler.answer = Refusal(reason)
    with caplog.at_level("INFO"):
        compiler.run(32, 33, 34)
    assert len(compiler.compiled) == 3
    assert compiler.planned == [beside(32)]
    wanted = "RuntimeError: broken" if reason == "raise" else reason
    assert f"a batch of 33 is not bound by that of 32: {wanted}" in caplog.messages


def test_a_process_that_compiles_nothing_plans_when_it_has_to() -> None:
    compiler = Compiler()
    compiler.batches = Batches(
        Signature((X, W), (X,)), compiler.specialise, compiler.rebinding, lambda: False
    )
    compiler.run(32)
    assert compiler.planned == []
    compiler.run(33, 34)
    assert compiler.planned == [beside(32)]
    assert compiler.bound == [33, 34]


def test_first_sizes_that_differ_are_no_batch() -> None:
    compiler = Compiler((X, X))
    for shapes in (((8, 4), (9, 4)), ((9, 4), (10, 4)), ((0, 4), (0, 4))):
        compiler.batches.specialise(shapes)
    assert len(compiler.compiled) == 3
    assert not compiler.planned


def test_other_sizes_are_compiled() -> None:
    compiler = Compiler((TensorSpec((-1, -1), F32), W))
    compiler.batches.specialise(((8, 4), (6, 4)))
    compiler.batches.specialise(((9, 5), (6, 4)))
    compiler.batches.specialise(((9, 4), (6, 4)))
    assert [shapes[0] for shapes in compiler.compiled] == [(8, 4), (9, 5)]


FORWARD = """
func.func @main(%x: tensor<?x14x14x64xf16>, %w: tensor<64x3x3x64xf16>) -> tensor<?x14x14x64xf16> {
  %zero = arith.constant 0.0 : f16
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x14x14x64xf16>
  %e = tensor.empty(%n) : tensor<?x14x14x64xf16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<?x14x14x64xf16>) -> tensor<?x14x14x64xf16>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32)
         ins(%x, %w : tensor<?x14x14x64xf16>, tensor<64x3x3x64xf16>)
         outs(%i : tensor<?x14x14x64xf16>)
  return %y : tensor<?x14x14x64xf16>
}
"""

WEIGHTS = """
func.func @main(%x: tensor<?x14x14x64xf16>, %dy: tensor<?x14x14x64xf16>) -> tensor<64x3x3x64xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<64x3x3x64xf16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<64x3x3x64xf16>) -> tensor<64x3x3x64xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32)
          ins(%x, %dy : tensor<?x14x14x64xf16>, tensor<?x14x14x64xf16>)
          outs(%i : tensor<64x3x3x64xf16>)
  return %dw : tensor<64x3x3x64xf16>
}
"""


class Driver:
    """A GPU that only looks at what it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modules: list[bytes] = []
        self.grids: list[tuple[int, ...]] = []
        driver = self

        class Module:
            def load(self, cubin: bytes) -> None:
                driver.modules.append(cubin)

            def get_function(self, name: str) -> Any:
                return SimpleNamespace(ptr=1, name=name)

        def launch(*arguments: Any) -> None:
            self.grids.append(arguments[1:4])

        def ignored(*given: Any) -> Any:
            return None

        def array(*given: Any) -> Any:
            return SimpleNamespace(ptr=0, data=SimpleNamespace(ptr=0))

        def encoded(address: int) -> Any:
            return np.zeros(128, "u1")

        def device(index: int) -> Any:
            return SimpleNamespace(id=index, use=ignored)

        def encoder(tensor_map: object) -> Any:
            return encoded

        def scope(program: CudaProgram, stream: object = None) -> nullcontext[None]:
            return nullcontext()

        stream = SimpleNamespace(ptr=0, synchronize=ignored)
        cuda = SimpleNamespace(
            Device=device,
            function=SimpleNamespace(Module=Module),
            get_current_stream=lambda: stream,
            alloc=array,
            runtime=SimpleNamespace(memsetAsync=None),
        )
        arrays = SimpleNamespace(cuda=cuda, asarray=array, ndarray=None, empty=len)

        def launch_programmatically(at: Any, *_: object) -> int:
            self.grids.append(tuple(at._obj.grid))
            return 0

        launches = SimpleNamespace(
            cuLaunchKernelEx=launch_programmatically,
            launchCooperativeKernel=launch,
            launchKernel=launch,
            funcSetAttribute=ignored,
            CUDADriverError=RuntimeError,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
        )
        monkeypatch.setattr(toolkit, "cupy", lambda: arrays)
        monkeypatch.setattr(toolkit, "launches", lambda: launches)
        monkeypatch.setattr(toolkit, "driver_library", lambda: launches)
        monkeypatch.setattr(toolkit, "architecture", lambda: "sm_90a")
        monkeypatch.setattr(launch_module, "Encoder", encoder)
        monkeypatch.setattr(CudaProgram, "scope", scope)


@pytest.mark.parametrize(("turn", "planned"), [(1, 3), (2, 5), (9, 7)])
def test_batches_that_passes_choose_alike_for_are_compared(turn: int, planned: int) -> None:
    """Configs change with every `turn`th batch."""
    asked: list[int] = []

    class Chosen:
        def __init__(self, shapes: Shapes) -> None:
            self.batch = shapes[0][0]
            self.calls = (Fill(0.0, MEMORY),) * (1 + self.batch % turn)
            asked.append(self.batch)

        def summary(self, kind: str) -> list[str]:
            return ["other" if turn > 1 and self.batch % turn else "first"]

    class Compiling:
        device = Device(CUDA, 0, DEFAULT_TARGET)
        _build = SimpleNamespace(program=Chosen)

    bound = [Bound(batch, ((batch, 4),)) for batch in beside(18)]
    made = SimpleNamespace(program=Chosen(bound[0].shapes))
    programs, batches = Job._chosen_alike(Compiling(), bound, made)  # pyright: ignore
    assert [program.batch for program in programs] == batches  # pyright: ignore
    assert batches == [each for each in asked if turn == 1 or each % turn == 0]
    assert len(asked) == planned


def at(address: int) -> Any:
    """An array of a GPU, as far as a launch looks at it."""
    return SimpleNamespace(data=SimpleNamespace(ptr=address))


@pytest.mark.parametrize("batch", [64, 32], ids=["chosen alike", "the next ones adopt its config"])
def test_a_bound_batch_launches_the_code_that_is_loaded(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvrtc_or_skip()
    driver = Driver(monkeypatch)
    job = Job(source_of(FORWARD, (), 1.0), None, "default", Device(CUDA, 0, DEFAULT_TARGET))
    signature = job.compile()
    assert isinstance(signature, Signature)
    batches = Batches(signature, job.specialise, job.rebinding)

    def program(batch: int) -> CudaProgram:
        loaded = batches.specialise(((batch, 14, 14, 64), (64, 3, 3, 64))).loaded
        assert isinstance(loaded, CudaProgram)
        return loaded

    first = program(batch)
    program(batch + 1)
    loaded = len(driver.modules)
    monkeypatch.delattr(Build, "program")
    bound = program(100)
    assert len(driver.modules) == loaded
    assert bound.plan.sources == first.plan.sources
    bound.run([at(256), at(512)], [at(1024)])
    (step,) = bound.plan.steps
    assert isinstance(step, PlannedLaunch)
    assert driver.grids == [kernel.grid for kernel in step.kernels]
    # Only what is lowered for a batch knows loops for arrays that begin anywhere.
    lowered: list[Any] = []

    def run(*arrays: Any) -> None:
        lowered.append(arrays)

    bound.__dict__["_lowered"] = SimpleNamespace(run=run)
    inputs, outputs = [at(256), at(512)], [at(1026)]
    bound.run(inputs, outputs)
    assert lowered == [(inputs, outputs)]
    assert len(driver.grids) == 1


def integers(*shape: int) -> Any:
    """Small enough that every sum is exact in f16."""
    return cupy_or_skip().random.randint(-1, 2, shape).astype("float16")


@pytest.mark.gpu
@pytest.mark.parametrize("text", [FORWARD, WEIGHTS], ids=["forward", "weights"])
def test_batches_on_a_gpu(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = cupy_or_skip()
    program = convir_compile(text, device="cuda")
    assert isinstance(program, DynamicExecutable)
    with_weights = text is FORWARD

    def operands(batch: int) -> list[Any]:
        other = (64, 3, 3, 64) if with_weights else (batch, 14, 14, 64)
        return [integers(batch, 14, 14, 64), integers(*other)]

    program(*operands(32))
    program(*operands(33))  # Waits for what binds batches.
    for batch in (20, 31, 57, 100, 127):
        given = operands(batch)
        with monkeypatch.context() as patched:
            patched.delattr(Build, "program")  # Nothing is lowered.
            got = program(*given)
        static = text.replace("tensor<?x", f"tensor<{batch}x").replace("empty(%n)", "empty()")
        cupy.testing.assert_array_equal(got, convir_compile(static, device="cuda")(*given))


@pytest.mark.gpu
def test_arrays_that_begin_anywhere_on_a_gpu() -> None:
    cupy = cupy_or_skip()
    program = convir_compile(FORWARD, device="cuda")
    w = integers(64, 3, 3, 64)
    for batch in (32, 40):
        x = integers(batch, 14, 14, 64)
        shifted = cupy.empty(x.size + 1, "float16")[1:].reshape(x.shape)
        shifted[...] = x
        cupy.testing.assert_array_equal(program(shifted, w), program(x, w))
