"""Per-sample products before and after `batch-gemms`: in loops and unrolled, however stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as compile_module
from convir.dialects.context import read_module
from convir.lowering.bodies.contraction import read_kernel
from convir.lowering.kernels.host.implicit_gemm import blocking
from convir.lowering.kernels.host.target import target
from convir.lowering.kernels.target import cpu_costs, named
from convir.passes import run
from convir.passes.batch_gemms.costs import Traffic, choose_chunks, chunks_of
from convir.passes.machine_costs import ASSUMED, ASSUMED_SIZE
from convir.passes.manager.quantities import bytes_text
from convir.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

C, H, TAPS, K = 3, 6, 3, 4
P = H - TAPS + 1
DEPTH, M = C * TAPS, P
BYTES = DEPTH * M * 4

IM2COL = f"""
  %e0_@ = tensor.empty() : tensor<{C}x{TAPS}x{P}xf32>
  %cols_@ = linalg.generic {{indexing_maps = [affine_map<(c, r, p) -> (c, p + r)>,
      affine_map<(c, r, p) -> (c, r, p)>], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%xs_@ : tensor<{C}x{H}xf32>) outs(%e0_@ : tensor<{C}x{TAPS}x{P}xf32>) {{
    ^bb0(%v: f32, %o: f32):
      linalg.yield %v : f32
  }} -> tensor<{C}x{TAPS}x{P}xf32>
  %xcol_@ = tensor.collapse_shape %cols_@ [[0, 1], [2]]
      : tensor<{C}x{TAPS}x{P}xf32> into tensor<{DEPTH}x{P}xf32>
"""
"""The ops of sample @."""


@dataclass(frozen=True)
class Form:
    """How the samples are written down."""

    count: int
    unrolled: bool
    init: str
    """`zero`, `bias` (broadcast), or `accumulate` (beta = 1)."""
    dim: int
    """The dimension of the input and of the result that samples lie along."""
    keeps: bool
    """Whether a sample's slice of the input keeps the dimension of size 1."""
    activation: bool
    padded: bool
    first: int
    """The first of the samples that are computed; the others of the result stay."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the input, the filter, the bias and the result."""
        total = self.first + self.count
        x, y = [C, H - 2 * self.padded], [K, P]
        x.insert(self.dim, total)
        y.insert(self.dim, total)
        return tuple(x), (K, DEPTH), (K,), tuple(y)

    def sliced(self, value: str, index: str, shape: Sequence[int], kept: bool) -> str:
        """The slice of one sample: offsets, sizes, strides, the types."""
        offsets = ["0"] * 3
        offsets[self.dim] = index
        sizes = [1 if d == self.dim else n for d, n in enumerate(shape)]
        small = sizes if kept else [n for d, n in enumerate(sizes) if d != self.dim]
        place = f"[{', '.join(offsets)}] [{', '.join(map(str, sizes))}] [1, 1, 1]"
        return f"{value}{place} : {tensor(shape)} to {tensor(small)}"

    def sample(self, i: str, index: str, acc: str) -> str:
        """The ops of one sample, which define `%r_i`."""
        x, _, _, y = self.shapes
        image = "%xi" if not self.padded else "%xp"
        lines = [f"%xk_{i} = tensor.extract_slice {self.sliced('%x', index, x, self.keeps)}"]
        flat = [C, H - 2 * self.padded]
        if self.keeps:
            kept = [1 if d == self.dim else n for d, n in enumerate(x)]
            groups = {0: "[[0, 1], [2]]", 1: "[[0, 1], [2]]", 2: "[[0], [1, 2]]"}[self.dim]
            lines.append(
                f"%xi_{i} = tensor.collapse_shape %xk_{i} {groups} : {tensor(kept)} "
                f"into {tensor(flat)}"
            )
        else:
            lines.append(f"%xi_{i} = tensor.cast %xk_{i} : {tensor(flat)} to {tensor(flat)}")
        if self.padded:
            lines.append(
                f"%xp_{i} = tensor.pad %xi_{i} low[0, 1] high[0, 1] {{\n^bb0(%a: index, %b: index):"
                f"\n  tensor.yield %zero : f32\n}} : {tensor(flat)} to {tensor((C, H))}"
            )
        lines.append(IM2COL.replace("%xs", image).replace("@", i))
        if self.init == "accumulate":
            lines.append(f"%b_{i} = tensor.extract_slice {self.sliced(acc, index, y, False)}")
        start = {"zero": "%zeros", "bias": "%bias", "accumulate": f"%b_{i}"}[self.init]
        lines.append(
            f"%p_{i} = linalg.matmul ins(%w, %xcol_{i} : {tensor((K, DEPTH))}, "
            f"{tensor((DEPTH, P))}) outs({start} : {tensor((K, P))}) -> {tensor((K, P))}"
        )
        result = f"%p_{i}"
        if self.activation:
            lines.append(f"%a_{i} = arith.maximumf %p_{i}, %zeros : {tensor((K, P))}")
            result = f"%a_{i}"
        place = self.sliced(acc, index, y, False).split(" : ")[0]
        lines.append(
            f"%r_{i} = tensor.insert_slice {result} into {place} : {tensor((K, P))} "
            f"into {tensor(y)}"
        )
        return "\n".join(lines)

    @property
    def text(self) -> str:
        """The module."""
        x, w, bias, y = (tensor(shape) for shape in self.shapes)
        if self.unrolled:
            accs = ["%y", *(f"%r_{i}" for i in range(self.count))]
            body = "\n".join(
                self.sample(str(i), str(self.first + i), accs[i]) for i in range(self.count)
            )
            result = accs[-1]
        else:
            body = (
                f"%result = scf.for %n = %first to %end step %c1 iter_args(%acc = %y) -> ({y}) {{\n"
                f"{self.sample('n', '%n', '%acc')}\nscf.yield %r_n : {y}\n}}"
            )
            result = "%result"
        return f"""
          func.func @main(%x: {x}, %w: {w}, %k: {bias}, %y: {y}) -> {y} {{
            %first = arith.constant {self.first} : index
            %end = arith.constant {self.first + self.count} : index
            %c1 = arith.constant 1 : index
            %zero = arith.constant 0.0 : f32
            %zeros = arith.constant dense<0.0> : {tensor((K, P))}
            %empty = tensor.empty() : {tensor((K, P))}
            %bias = linalg.broadcast ins(%k : {bias}) outs(%empty : {tensor((K, P))})
                      dimensions = [1]
            {body}
            return {result} : {y}
          }}"""


def tensor(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


FORMS = st.builds(
    Form,
    count=st.integers(2, 4),
    unrolled=st.booleans(),
    init=st.sampled_from(["zero", "bias", "accumulate"]),
    dim=st.integers(0, 2),
    keeps=st.booleans(),
    activation=st.booleans(),
    padded=st.booleans(),
    first=st.integers(0, 1),
)


BUDGETS = st.sampled_from(["", *(f" workspace-bytes={b}" for b in (300, 2 * BYTES, 3 * BYTES))])


@settings(max_examples=60, deadline=None)
@given(
    form=FORMS,
    budget=BUDGETS,
    reads_images=st.booleans(),
    seed=st.integers(0, 9),
)
def test_batched_samples_are_the_same_samples(
    form: Form, budget: str, reads_images: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arguments = [rng.integers(-4, 5, shape).astype(np.float32) for shape in form.shapes]
    module = read_module(form.text)
    expected = evaluate(module, "main", arguments)
    costs = ASSUMED if reads_images else named("h200").costs
    result = run(module, f'batch-gemms{{costs="{costs}"{budget}}}')
    batched = result.module
    (remark,) = (remark for remark in result.remarks if remark.fired)
    assert "scf.for" not in str(batched)
    # Three taps of few positions: the matrix is larger than the image, and the host reads that.
    assert ("images are read in place" in remark.reason) == reads_images
    np.testing.assert_array_equal(evaluate(batched, "main", arguments), expected)


@settings(max_examples=15, deadline=None)
@given(form=FORMS, budget=BUDGETS)
def test_batched_loops_run_on_the_host(form: Form, budget: str) -> None:
    rng = np.random.default_rng(0)
    arguments: list[Any] = [rng.integers(-4, 5, s).astype(np.float32) for s in form.shapes]
    (expected,) = evaluate(read_module(form.text), "main", arguments)
    passes = f'batch-gemms{{costs="{ASSUMED}"{budget}}},canonicalize,cse'
    compiled = compile_module(form.text, passes, device="host")
    out = np.full(expected.shape, np.nan, np.float32)
    compiled(*arguments, out=out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("rows", [int(ASSUMED.in_place_rows), int(ASSUMED.in_place_rows) + 1])
def test_what_the_remark_says_of_workspace_is_what_the_plan_has(rows: int) -> None:
    w, x, y = ([rows, 24], [4, 24, 32], [4, rows, 32])
    text = f"""
      func.func @main(%x: {tensor(x)}, %w: {tensor(w)}) -> {tensor(y)} {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        %zeros = arith.constant dense<0.0> : {tensor(y[1:])}
        %y = tensor.empty() : {tensor(y)}
        %r = scf.for %n = %c0 to %c4 step %c1 iter_args(%acc = %y) -> ({tensor(y)}) {{
          %xs = tensor.extract_slice %x[%n, 0, 0] {[1, *x[1:]]} [1, 1, 1]
              : {tensor(x)} to {tensor(x[1:])}
          %p = linalg.matmul ins(%w, %xs : {tensor(w)}, {tensor(x[1:])})
              outs(%zeros : {tensor(y[1:])}) -> {tensor(y[1:])}
          %s = tensor.insert_slice %p into %acc[%n, 0, 0] {[1, *y[1:]]} [1, 1, 1]
              : {tensor(y[1:])} into {tensor(y)}
          scf.yield %s : {tensor(y)}
        }}
        return %r : {tensor(y)}
      }}"""
    (remark,) = run(text, "batch-gemms").remarks
    assert ("which need no workspace" in remark.reason) == (rows == int(ASSUMED.in_place_rows))
    compiled = compile_module(text, "batch-gemms,canonicalize,cse", device="host")
    assert rows > int(ASSUMED.in_place_rows) or compiled.program.arena_bytes == 0


def test_the_pass_expects_what_the_kernels_do() -> None:
    for costs in (ASSUMED, cpu_costs(target())):
        kernels = (blocking.IN_PLACE_ROWS, read_kernel.MOST_LOST)
        assert (costs.in_place_rows, costs.lanes_per_idle) == kernels


OPEN_COLUMNS = """
  func.func @main(%x: tensor<4x3xf32>, %w: tensor<6x3xf32>, %of: tensor<?xf32>,
                  %y: tensor<4x6x2xf32>) -> tensor<4x6x2xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0.0 : f32
    %n = tensor.dim %of, %c0 : tensor<?xf32>
    %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %y) -> (tensor<4x6x2xf32>) {
      %xi = tensor.extract_slice %x[%i, 0] [1, 3] [1, 1] : tensor<4x3xf32> to tensor<3xf32>
      %ec = tensor.empty(%n) : tensor<3x?xf32>
      %cols = linalg.broadcast ins(%xi : tensor<3xf32>) outs(%ec : tensor<3x?xf32>) dimensions = [1]
      %e = tensor.empty(%n) : tensor<6x?xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<6x?xf32>) -> tensor<6x?xf32>
      %p = linalg.matmul ins(%w, %cols : tensor<6x3xf32>, tensor<3x?xf32>)
          outs(%z : tensor<6x?xf32>) -> tensor<6x?xf32>
      %et = tensor.empty() : tensor<6x2xf32>
      %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>,
          affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
          ins(%p : tensor<6x?xf32>) outs(%et : tensor<6x2xf32>) {
      ^bb0(%v: f32, %o: f32):
        linalg.yield %v : f32
      } -> tensor<6x2xf32>
      %s = tensor.insert_slice %t into %acc[%i, 0, 0] [1, 6, 2] [1, 1, 1]
          : tensor<6x2xf32> into tensor<4x6x2xf32>
      scf.yield %s : tensor<4x6x2xf32>
    }
    return %r : tensor<4x6x2xf32>
  }"""


def test_open_sizes_are_assumed_but_not_within_a_limit() -> None:
    (assumed,) = run(OPEN_COLUMNS, "batch-gemms").remarks
    columns = 4 * 3 * ASSUMED_SIZE * 4  # of all samples, written once and packed once
    assert assumed.reason.startswith(f"4 samples at once: {2 * columns} bytes of workspace")
    limited, *_ = run(OPEN_COLUMNS, "batch-gemms{workspace-bytes=100000}").remarks
    assert limited.reason == (
        "4 samples in turns: their workspace has open sizes, and 100 kB at most"
    )


def test_chunks_are_few_and_even() -> None:
    assert chunks_of(8, 100, 800) == [8]
    assert chunks_of(8, 100, 799) == [4, 4]
    assert chunks_of(7, 100, 300) == [3, 2, 2]
    assert chunks_of(8, 0, 0) == [8]
    assert chunks_of(3, 100, 199) == [1, 1, 1]
    assert chunks_of(3, 100, 50) == [1, 1, 1]


def test_what_is_shared_decides_between_chunks_and_all_at_once() -> None:
    within = int(ASSUMED.cache_bytes) // 2
    assert choose_chunks(8, Traffic(within, 0), ASSUMED, None)[0] == [2] * 4
    # Three more launches pack what is shared again, which exceeds the workspace of all.
    assert choose_chunks(8, Traffic(within, 3 * within), ASSUMED, None)[0] == [8]
    assert choose_chunks(8, Traffic(within, 2 * within), ASSUMED, None)[0] == [2] * 4
    chunks, reason = choose_chunks(8, Traffic(within, 3 * within), ASSUMED, 2 * within)
    assert chunks == [2] * 4
    kept, whole = bytes_text(2 * within), bytes_text(8 * within)
    assert f"{kept} of workspace, as {whole} exceed {kept}" in reason


@pytest.mark.parametrize("budget", [512 * BYTES, 40 * BYTES])
def test_the_workspace_of_a_large_batch_is_as_planned(
    budget: int, caplog: pytest.LogCaptureFixture
) -> None:
    """256 samples: what the plan has, and a call allocates, is within the budget given."""
    form = Form(256, False, "bias", 0, False, True, False, 0)
    rng = np.random.default_rng(0)
    arguments: list[Any] = [rng.integers(-4, 5, s).astype(np.float32) for s in form.shapes]
    (expected,) = evaluate(read_module(form.text), "main", arguments)
    passes = f"batch-gemms{{workspace-bytes={budget}}},canonicalize,cse"
    # Beside im2col there are packed matrices, and results that are inserted.
    given = 3 * budget + (48 << 10)
    compiled = compile_module(form.text, passes, device="host", workspace_bytes=given)
    np.testing.assert_array_equal(compiled(*arguments), expected)
    assert compiled.program.arena_bytes <= given
    assert "beside the plan" not in caplog.text


COUNT = 3


@dataclass(frozen=True)
class Scalars:
    """Samples whose result is one element, on the way through a tensor of rank 0."""

    dim: int
    """The dimension of the input that samples lie along."""
    kept: int
    """The rank of what is inserted."""
    stored: int
    """The dimension of the result that samples lie along."""
    unrolled: bool

    @property
    def shapes(self) -> tuple[list[int], list[int], list[int]]:
        """Of the input, the row that each sample is multiplied with, and the result."""
        x, y = [DEPTH, 1], [1, 1]
        x.insert(self.dim, COUNT)
        y.insert(self.stored, COUNT)
        return x, [1, DEPTH], y

    def sample(self, i: str, index: str, acc: str) -> str:
        x, _, y = self.shapes
        places = [index if d == self.dim else "0" for d in range(3)]
        targets = [index if d == self.stored else "0" for d in range(3)]
        sizes = [1 if d == self.dim else n for d, n in enumerate(x)]
        ones = [1] * self.kept
        return f"""
          %s_{i} = tensor.extract_slice %x[{", ".join(places)}] {sizes} [1, 1, 1]
              : {tensor(x)} to {tensor((DEPTH, 1))}
          %p_{i} = linalg.matmul ins(%w, %s_{i} : {tensor((1, DEPTH))}, {tensor((DEPTH, 1))})
              outs(%zero : tensor<1x1xf32>) -> tensor<1x1xf32>
          %c_{i} = tensor.collapse_shape %p_{i} [] : tensor<1x1xf32> into tensor<f32>
          %m_{i} = arith.maximumf %c_{i}, %one : tensor<f32>
          %d_{i} = arith.select %flag, %m_{i}, %c_{i} : tensor<f32>
          %e_{i} = tensor.expand_shape %d_{i} [] output_shape {ones}
              : tensor<f32> into {tensor(ones)}
          %r_{i} = tensor.insert_slice %e_{i} into {acc}[{", ".join(targets)}] [1, 1, 1] [1, 1, 1]
              : {tensor(ones)} into {tensor(y)}"""

    @property
    def text(self) -> str:
        """The module."""
        x, w, y = map(tensor, self.shapes)
        if self.unrolled:
            accs = ["%y", *(f"%r_{i}" for i in range(COUNT))]
            body = "\n".join(self.sample(str(i), str(i), accs[i]) for i in range(COUNT))
        else:
            body = (
                f"%r = scf.for %n = %c0 to %end step %c1 iter_args(%acc = %y) -> ({y}) {{\n"
                f"{self.sample('n', '%n', '%acc')}\nscf.yield %r_n : {y}\n}}"
            )
        result = f"%r_{COUNT - 1}" if self.unrolled else "%r"
        return f"""
          func.func @main(%x: {x}, %w: {w}, %y: {y}, %flag: i1) -> {y} {{
            %c0 = arith.constant 0 : index
            %c1 = arith.constant 1 : index
            %end = arith.constant {COUNT} : index
            %zero = arith.constant dense<0.0> : tensor<1x1xf32>
            %one = arith.constant dense<1.0> : tensor<f32>
            {body}
            return {result} : {y}
          }}"""


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("stored", [0, 1, 2])
@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_samples_of_rank_0(dim: int, kept: int, stored: int, unrolled: bool) -> None:
    form = Scalars(dim, kept, stored, unrolled)
    rng = np.random.default_rng(dim)
    arguments: list[Any] = [rng.integers(-4, 5, s).astype(np.float32) for s in form.shapes]
    arguments.append(np.bool_(kept % 2))
    (expected,) = evaluate(read_module(form.text), "main", arguments)
    result = run(form.text, "batch-gemms")
    assert any(remark.fired for remark in result.remarks), result.remarks
    (batched,) = evaluate(result.module, "main", arguments)
    np.testing.assert_array_equal(batched, expected)


IN_THE_LOOP = {
    "a cast": "%d = tensor.cast %x : tensor<3x4x4xf32> to tensor<?x4x4xf32>",
    "a pointwise op": "%a = arith.addf %x, %x : tensor<3x4x4xf32>\n"
    "%d = tensor.cast %a : tensor<3x4x4xf32> to tensor<?x4x4xf32>",
}


@pytest.mark.parametrize("budget", ["", "{workspace-bytes=0}"])
@pytest.mark.parametrize("computed", IN_THE_LOOP.values(), ids=IN_THE_LOOP.keys())
def test_slices_of_what_each_sample_computes_alike(computed: str, budget: str) -> None:
    text = f"""
      func.func @main(%x: tensor<3x4x4xf32>, %w: tensor<5x4xf32>, %y: tensor<3x5x4xf32>)
          -> tensor<3x5x4xf32> {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c3 = arith.constant 3 : index
        %zero = arith.constant dense<0.0> : tensor<5x4xf32>
        %r = scf.for %n = %c0 to %c3 step %c1 iter_args(%acc = %y) -> (tensor<3x5x4xf32>) {{
          {computed}
          %xn = tensor.extract_slice %d[%n, 0, 0] [1, 4, 4] [1, 1, 1]
            : tensor<?x4x4xf32> to tensor<4x4xf32>
          %p = linalg.matmul ins(%w, %xn : tensor<5x4xf32>, tensor<4x4xf32>)
            outs(%zero : tensor<5x4xf32>) -> tensor<5x4xf32>
          %s = tensor.insert_slice %p into %acc[%n, 0, 0] [1, 5, 4] [1, 1, 1]
            : tensor<5x4xf32> into tensor<3x5x4xf32>
          scf.yield %s : tensor<3x5x4xf32>
        }}
        return %r : tensor<3x5x4xf32>
      }}"""
    rng = np.random.default_rng(0)
    shapes = ((3, 4, 4), (5, 4), (3, 5, 4))
    arguments: list[Any] = [rng.integers(-4, 5, s).astype(np.float32) for s in shapes]
    (expected,) = evaluate(read_module(text), "main", arguments)
    result = run(text, f"batch-gemms{budget}")
    result.module.verify()
    assert any(remark.fired for remark in result.remarks), result.remarks
    (batched,) = evaluate(result.module, "main", arguments)
    np.testing.assert_array_equal(batched, expected)


def test_turns_of_one_element_are_turns_already() -> None:
    """Which of three dimensions of size 1 a slice has dropped does not show in its type."""
    steps = "\n".join(
        f"""
        %x{i} = tensor.extract_slice %x[0, {i}, 0] [1, 1, 2] [1, 1, 1]
          : tensor<1x4x2xf32> to tensor<1x2xf32>
        %p{i} = linalg.matmul ins(%x{i}, %w : tensor<1x2xf32>, tensor<2x1xf32>)
          outs(%z : tensor<1x1xf32>) -> tensor<1x1xf32>
        %y{i} = tensor.insert_slice %p{i} into %{f"y{i - 1}" if i else "y"}[{i}, 0, 0] [1, 1, 1]
          [1, 1, 1] : tensor<1x1xf32> into tensor<4x1x1xf32>"""
        for i in range(4)
    )
    text = f"""
      func.func @main(%x: tensor<1x4x2xf32>, %w: tensor<2x1xf32>, %y: tensor<4x1x1xf32>)
          -> tensor<4x1x1xf32> {{
        %z = arith.constant dense<0.0> : tensor<1x1xf32>
        {steps}
        return %y3 : tensor<4x1x1xf32>
      }}"""
    once = run(text, "batch-gemms{workspace-bytes=0}")
    again = run(once.module, "batch-gemms{workspace-bytes=0}")
    assert not any(remark.fired for remark in again.remarks), again.remarks
