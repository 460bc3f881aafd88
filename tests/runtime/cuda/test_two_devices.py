"""Programs on the second of two GPUs: everything of theirs is there, and only there."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from conv_cases import DTYPES, small_integers, torch_answer
from conv_lines import NHWC
from gpu import cupy_or_skip
from gpu_programs import PRODUCT, RUNNING_SUM, matrices, on_gpu, product
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.runtime.cuda import toolkit

pytestmark = pytest.mark.gpu

LINES = (
    f"convfp16 -n 3 -c 128 -H 17 -W 23 -k 136 -y 1 -x 1 -u 2 -v 2 -F 2 {NHWC}",
    f"convfp16 -n 2 -c 64 -H 13 -W 11 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 8 -F 2 {NHWC}",
    f"convfp16 -n 2 -c 20 -H 13 -W 11 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}",
)


@pytest.fixture(autouse=True)
def cupy() -> Any:
    return cupy_or_skip(1)


def test_arrays_streams_and_graphs(cupy: Any) -> None:
    executable = on_gpu(PRODUCT, "cuda:1")
    a, b = matrices(7)
    y = executable(a, b)
    assert y.device.id == 1
    assert cupy.cuda.runtime.getDevice() == 0, "the caller's device stays current"
    with cupy.cuda.Device(1):
        assert np.array_equal(cupy.asnumpy(y), product(a, b))
        other = cupy.cuda.Stream(non_blocking=True)
        here = [cupy.asarray(x) for x in (a, b)]
    elsewhere = cupy.asarray(a)
    with pytest.raises(ValueError, match="argument 0 lies on cuda:0, the program on cuda:1"):
        executable(elsewhere, b)
    with pytest.raises(ValueError, match="the stream belongs to cuda:1, the program to cuda:0"):
        on_gpu(PRODUCT)(a, b, stream=other)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(executable.graph()(*here)))
    thread.start()
    thread.join()
    with cupy.cuda.Device(1):
        assert np.array_equal(cupy.asnumpy(results[0]), product(a, b))


@pytest.mark.parametrize("line", LINES)
def test_contractions(line: str, cupy: Any) -> None:
    (problem,) = parse_line(line).problems.values()
    lhs, rhs = (small_integers(s, problem.dtype, i) for i, s in enumerate(problem.shapes[:2]))
    expected = torch_answer(problem, lhs, rhs).astype(DTYPES[problem.dtype])
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda:1")
    (spec,) = executable.outputs
    with cupy.cuda.Device(1):
        out = cupy.full(spec.shape, cupy.nan, spec.dtype)
        arguments = [cupy.asarray(x) for x in (lhs, rhs)]
    executable(*arguments, out=out)
    with cupy.cuda.Device(1):
        assert np.array_equal(cupy.asnumpy(out), expected)
        replayed = executable.graph()(*arguments)
        assert replayed.device.id == 1
        assert np.array_equal(cupy.asnumpy(replayed), expected)


def test_pytorch_tensors_and_streams(cupy: Any) -> None:
    torch = pytest.importorskip("torch")
    executable = on_gpu(PRODUCT, "cuda:1")
    a, b = matrices(8)
    stream = torch.cuda.Stream(device="cuda:1")
    with torch.cuda.stream(stream):
        here = [torch.from_numpy(x).to("cuda:1") for x in (a, b)]
        y = executable(*here, stream=stream)
        assert y.device.index == 1
        assert np.array_equal(y.cpu().numpy(), product(a, b))
    with pytest.raises(ValueError, match="argument 0 lies on cuda:0, the program on cuda:1"):
        executable(here[0].to("cuda:0"), here[1])


def test_both_at_once(cupy: Any) -> None:
    programs = [on_gpu(PRODUCT, f"cuda:{i}") for i in range(2)]
    cases = [matrices(seed) for seed in (9, 10)]
    wrong: list[int] = []

    def work(index: int) -> None:
        with cupy.cuda.Device(index):
            arrays = [cupy.asarray(x) for x in cases[index]]
            for _ in range(50):
                y = programs[index](*arrays)
                if not np.array_equal(cupy.asnumpy(y), product(*cases[index])):
                    wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_state_lives_on_each(cupy: Any) -> None:
    for index in range(2):
        executable = on_gpu(RUNNING_SUM, f"cuda:{index}")
        with cupy.cuda.Device(index):
            x = cupy.ones(64, np.float32)
            for count in (1.0, 2.0):
                assert bool((executable(x) == count).all())


def test_the_gpu_whose_memory_runs_out_is_named(cupy: Any) -> None:
    text = """
func.func @main() -> tensor<8796093022208xf32> {
  %0 = arith.constant dense<1.0> : tensor<8796093022208xf32>
  func.return %0 : tensor<8796093022208xf32>
}"""
    with pytest.raises(toolkit.GpuMemoryError, match="cuda:1 is out of memory"):
        on_gpu(text, "cuda:1")()
