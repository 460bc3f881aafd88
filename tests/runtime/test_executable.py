"""What callers may pass to an executable, and what happens when they pass something else."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as convir_compile
from convir.dialects.diagnostics import DiagnosticError
from convir.reference.dtypes import BFLOAT16
from convir.runtime.program import shared_outputs

if TYPE_CHECKING:
    from convir.runtime.executable import Executable

pytestmark = pytest.mark.fast

MATMUL = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>)
      outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %0 : tensor<4x6xf32>
}"""

CHAIN = """
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 63)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<64xf32>
  func.return %0 : tensor<64xf32>
}"""


def host(text: str) -> Executable:
    return convir_compile(text, pipeline="", device="host")


def pointwise(shape: str, op: str = "arith.negf", element: str = "f32") -> str:
    tensor = f"tensor<{shape}{element}>"
    return f"""
func.func @main(%x: {tensor}) -> {tensor} {{
  %0 = {op} %x : {tensor}
  func.return %0 : {tensor}
}}"""


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (300, 0, 5), (0, 300, 300)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    executable = host(pointwise("".join(f"{n}x" for n in shape)))
    assert executable(np.zeros(shape, np.float32)).shape == shape


def test_a_sum_of_nothing_is_its_init() -> None:
    text = MATMUL.replace("4x8x", "4x0x").replace("8x6x", "0x6x")
    out = np.full((4, 6), np.nan, np.float32)
    host(text)(np.zeros((4, 0), np.float32), np.zeros((0, 6), np.float32), out=out)
    assert np.array_equal(out, np.zeros((4, 6)))


def test_padding_of_nothing() -> None:
    executable = host("""
func.func @main(%x: tensor<0x3xf32>) -> tensor<2x5xf32> {
  %one = arith.constant 1.0 : f32
  %0 = tensor.pad %x low[1, 1] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %one : f32
  } : tensor<0x3xf32> to tensor<2x5xf32>
  func.return %0 : tensor<2x5xf32>
}""")
    assert np.array_equal(executable(np.zeros((0, 3), np.float32)), np.ones((2, 5)))


def test_a_size_that_no_memory_holds_is_one_error() -> None:
    with pytest.raises(DiagnosticError, match="which no address space holds"):
        host(pointwise("4294967296x4294967296x"))


def test_other_shapes_dtypes_and_counts_are_refused() -> None:
    executable = host(MATMUL)
    x, w = np.zeros((4, 8), np.float32), np.zeros((8, 6), np.float32)
    with pytest.raises(ValueError, match="takes 2 arrays, not 1"):
        executable(x)
    with pytest.raises(ValueError, match=r"shape \(6, 8\), the program's is \(8, 6\)"):
        executable(x, w.T)
    with pytest.raises(TypeError, match="argument 0 holds float64, the program's is float32"):
        executable(x.astype(np.float64), w)
    with pytest.raises(TypeError, match="argument 0 holds float32 of the other byte order"):
        executable(x.astype(">f4"), w)
    with pytest.raises(TypeError, match="argument 0 is a list, not an array"):
        executable(x.tolist(), w)
    with pytest.raises(ValueError, match="writes 1 arrays, `out` holds 2"):
        executable(x, w, out=[x, w])
    with pytest.raises(ValueError, match="out 0 must be dense, aligned and writable"):
        executable(x, w, out=np.zeros((6, 4), np.float32).T)


def test_arrays_that_are_not_dense_are_copied() -> None:
    executable = host(MATMUL)
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (8, 8)).astype(np.float32)[::2]
    w = rng.integers(-3, 4, (6, 8)).astype(np.float32).T
    assert np.array_equal(executable(x, w), x @ w)
    backwards = x[::-1, ::-1]
    assert np.array_equal(executable(backwards, w), backwards @ w)
    one_row = np.broadcast_to(x[:1], (4, 8))
    assert np.array_equal(executable(one_row, w), one_row @ w)


def test_read_only_and_misaligned_arrays() -> None:
    executable = host(pointwise("64x"))
    x = np.arange(64, dtype=np.float32)
    x.flags.writeable = False
    assert np.array_equal(executable(x), -x)
    with pytest.raises(ValueError, match="out 0 must be dense, aligned and writable"):
        executable(x, out=x)
    raw = np.zeros(64 * 4 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32)
    misaligned[...] = x
    assert np.array_equal(executable(misaligned), -x)


def test_dlpack_arrays() -> None:
    torch = pytest.importorskip("torch")
    executable = host(MATMUL)
    x, w = torch.ones(4, 8), torch.arange(48.0).reshape(8, 6)
    assert np.array_equal(executable(x, w), (x @ w).numpy())
    assert np.array_equal(executable(x, w.T.contiguous().T), (x @ w).numpy())
    with pytest.raises(TypeError, match=r"argument 0 requires grad, .* pass \.detach\(\)"):
        executable(x.requires_grad_(), w)


def test_bfloat16_is_two_bytes_of_any_name() -> None:
    executable = host(pointwise("4x", element="bf16"))
    x = np.array([1, -2, 3, 0.5]).astype(BFLOAT16)
    for bits in (np.int16, np.uint16):
        assert np.array_equal(executable(x.view(bits)), -x)


def test_out_may_be_an_argument() -> None:
    executable = host(CHAIN)
    x = np.arange(64, dtype=np.float32)
    expected = 2 * x[::-1]
    assert executable(x, out=x) is x
    assert np.array_equal(x, expected)
    both = np.arange(96, dtype=np.float32)
    expected = 2 * both[:64][::-1]
    executable(both[:64], out=both[32:])
    assert np.array_equal(both[32:], expected)


def test_outputs_that_share_memory() -> None:
    executable = host("""
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.negf %x : tensor<4xf32>
  func.return %x, %0 : tensor<4xf32>, tensor<4xf32>
}""")
    x = np.arange(4, dtype=np.float32)
    out = np.zeros(4, np.float32)
    executable(x, out=(out, out))
    assert np.array_equal(out, -x)  # The last one wins.


def test_outputs_that_share_memory_are_found() -> None:
    below = random.Random(0).randrange
    for _ in range(2000):
        count = below(8)
        inputs = below(count + 1)
        begins, sizes = [below(20) for _ in range(count)], [below(6) for _ in range(count)]
        bytes_of = [set(range(b, b + size)) for b, size in zip(begins, sizes, strict=True)]
        shared = {
            i - inputs
            for i in range(inputs, count)
            if any(bytes_of[i] & bytes_of[j] for j in range(count) if j != i)
        }
        assert shared_outputs(begins, sizes, inputs) == shared


def test_thousands_of_outputs_that_share_memory_are_copied() -> None:
    executable = host("""
func.func @main(%x: tensor<2xi8>, %y: tensor<2xi8>) -> (tensor<2xi8>, tensor<2xi8>) {
  %0 = arith.addi %x, %y : tensor<2xi8>
  %1 = arith.subi %x, %y : tensor<2xi8>
  func.return %0, %1 : tensor<2xi8>, tensor<2xi8>
}""")
    memory = np.array([1, 2, 3, 4, 5], np.int8)
    x, y = memory[:2], memory[3:]
    executable(x, y, out=(memory[1:3], y))
    assert np.array_equal(memory, [1, 5, 7, -3, -3])
    count = 8000
    addresses = [*range(0, 64 * count, 64)]
    assert shared_outputs(addresses * 2, [64] * 2 * count, count) == {*range(count)}
    assert not shared_outputs(addresses, [64] * count, 0)


def test_arguments_constants_and_values_returned_twice() -> None:
    executable = host("""
func.func @main(%x: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi8>, tensor<2xi64>, tensor<3x1xf32>) {
  %0 = arith.negf %x : tensor<3xf32>
  %c = arith.constant dense<-1> : tensor<3xi8>
  %d = arith.constant dense<[1, -2]> : tensor<2xi64>
  %r = tensor.expand_shape %0 [[0, 1]] output_shape [3, 1] : tensor<3xf32> into tensor<3x1xf32>
  func.return %x, %0, %0, %c, %d, %r
    : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi8>, tensor<2xi64>, tensor<3x1xf32>
}""")
    x = np.arange(3, dtype=np.float32)
    same, a, b, c, d, r = executable(x)
    assert same is not x
    assert not np.may_share_memory(a, b)
    assert np.array_equal(same, x)
    assert np.array_equal(a, -x)
    assert np.array_equal(b, -x)
    assert np.array_equal(c, np.full(3, -1, np.int8))
    assert np.array_equal(d, [1, -2])
    assert np.array_equal(r, -x[:, None])


def test_no_results() -> None:
    assert host("func.func @main(%x: tensor<3xf32>) { func.return }")(np.zeros(3, "f4")) == ()


def test_scalars() -> None:
    executable = host("""
func.func @main(%x: tensor<3xf32>, %s: f32, %n: index, %p: i1) -> (tensor<3xf32>, f32, index) {
  %two = arith.constant 2.0 : f32
  %t = arith.mulf %s, %two : f32
  %u = arith.select %p, %t, %s : f32
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%u : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %r = arith.addf %x, %f : tensor<3xf32>
  %v = tensor.extract %r[%n] : tensor<3xf32>
  func.return %r, %v, %n : tensor<3xf32>, f32, index
}""")
    x = np.arange(3, dtype=np.float32)
    r, v, n = executable(x, 1.5, 2, True)
    assert np.array_equal(r, x + 3)
    assert (v.shape, float(v), int(n)) == ((), 5.0, 2)
    r, v, n = executable(x, np.float32(1.5), np.array(1), np.bool_(False))
    assert (float(v), int(n)) == (2.5, 1)
    with pytest.raises(TypeError, match=r"1\.5 is not a value of int64"):
        executable(x, 1.5, 1.5, True)
    with pytest.raises(TypeError, match="argument 1 holds float64"):
        executable(x, np.float64(1.5), 1, True)


def test_in_place_chain() -> None:
    negations = "\n".join(
        f"  %{i} = kernel.region {{ %t = arith.addf %{i - 1}, %x : tensor<64xf32>\n"
        "    kernel.yield %t : tensor<64xf32> } -> tensor<64xf32>"
        for i in range(1, 6)
    )
    executable = host(f"""
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
  %0 = kernel.region {{ %t = arith.negf %x : tensor<64xf32>
    kernel.yield %t : tensor<64xf32> }} -> tensor<64xf32>
{negations}
  func.return %5 : tensor<64xf32>
}}""")
    assert executable.program.arena_bytes == 256
    x = np.arange(64, dtype=np.float32)
    assert np.array_equal(executable(x), 4 * x)


def test_a_chain_that_doubles_is_compiled_in_linear_time() -> None:
    lines = "\n".join(
        f"  %{i} = arith.addf %{i - 1}, %{i - 1} : tensor<8xf32>" for i in range(1, 101)
    )
    executable = host(f"""
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
  %0 = arith.negf %x : tensor<8xf32>
{lines}
  func.return %100 : tensor<8xf32>
}}""")
    assert np.array_equal(executable(np.ones(8, np.float32)), np.full(8, -(2.0**100), np.float32))


def test_names_that_no_symbol_may_have() -> None:
    text = pointwise("4x", "math.tanh").replace("@main", '@"tanhf; a b"')
    executable = convir_compile(text, pipeline="", device="host", function="tanhf; a b")
    assert np.array_equal(executable(np.zeros(4, np.float32)), np.zeros(4))


def test_a_kernel_named_like_what_it_calls() -> None:
    executable = host("""
kernel.func @tanf(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.tan %x : tensor<4xf32>
  kernel.return %0 : tensor<4xf32>
}
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  rt.launch @tanf ins(%x : memref<4xf32>) outs(%y : memref<4xf32>)
  func.return
}""")
    x = np.array([0, 0.5, 1, -1], np.float32)
    np.testing.assert_allclose(executable(x), np.tan(x), rtol=1e-6)


def test_calls_from_many_threads() -> None:
    executable = host(MATMUL)
    rng = np.random.default_rng(0)
    cases = [
        (rng.integers(-3, 4, (4, 8)).astype("f4"), rng.integers(-3, 4, (8, 6)).astype("f4"))
        for _ in range(8)
    ]
    wrong: list[Any] = []

    def work(x: Any, w: Any) -> None:
        for _ in range(50):
            if not np.array_equal(executable(x, w), x @ w):
                wrong.append((x, w))

    threads = [threading.Thread(target=work, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_streams_and_graphs_need_a_gpu() -> None:
    executable = host(pointwise("4x"))
    with pytest.raises(ValueError, match="stream= is for programs on a GPU"):
        executable(np.zeros(4, np.float32), stream=0)
    with pytest.raises(ValueError, match=r"graph\(\) is for programs on a GPU"):
        executable.graph()
