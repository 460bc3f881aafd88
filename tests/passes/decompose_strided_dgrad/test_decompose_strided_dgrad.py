"""Strided backward data convolutions, executed before and after they are decomposed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from conv_cases import problems
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.scatter.scattered_tensor import Scatter, scatter_of
from convir.api.compile import compile as convir_compile
from convir.dialects.context import read_module
from convir.dialects.conv.geometry import Direction
from convir.dialects.kernel.ops import RegionOp
from convir.frontends.conv_module import function_of, module_of_line
from convir.frontends.miopen import parse_line
from convir.passes import run
from convir.passes.builders.scattered_contraction import RewriteReaders, contraction_of
from convir.passes.decompose_strided_dgrad.match import read_scattered
from convir.passes.decompose_strided_dgrad.pass_ import DecomposeStridedDgradPass
from convir.passes.decompose_strided_dgrad.pixel_shuffle import PixelShuffle, plan_shuffle
from convir.reference import evaluate
from convir.reference.checking.check import check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation

    from convir.dialects.conv.problem import ConvProblem

DECOMPOSE = DecomposeStridedDgradPass.name

FORCED = f"{DECOMPOSE}{{force=true}}"


def flops(module: ModuleOp) -> int:
    """Of all contractions together."""
    found = [contraction_dims(op) for op in module.walk()]
    return sum(dims.flops or 0 for dims in found if not isinstance(dims, Refusal))


def splits(problem: ConvProblem) -> bool:
    """Whether some dimension has elements with holes between them under several taps."""
    scatters = [
        window.scatter(size, outputs)
        for window, size, outputs in zip(
            problem.windows, problem.spatial, problem.output_spatial, strict=True
        )
    ]
    return all(scatter.count for scatter in scatters) and any(
        scatter.stride > 1 and scatter.count > 1 and window.taps > 1
        for scatter, window in zip(scatters, problem.windows, strict=True)
    )


def scatters_one_element(problem: ConvProblem) -> bool:
    """Whether some dimension has one element under several taps: rewritten where cheaper."""
    scatters = [
        (window.scatter(size, outputs), window.taps)
        for window, size, outputs in zip(
            problem.windows, problem.spatial, problem.output_spatial, strict=True
        )
    ]
    return any(scatter.count == 1 and taps > 1 for scatter, taps in scatters)


@settings(deadline=None, max_examples=150)
@given(problems(directions=[Direction.DGRAD]))
def test_gradients_are_exact_and_no_strided_window_is_left(problem: ConvProblem) -> None:
    before = run(ModuleOp([function_of("main", problem)]), "convert-conv-to-linalg").module
    result = run(before, FORCED)
    if splits(problem) or not scatters_one_element(problem):
        assert any(remark.fired for remark in result.remarks) == splits(problem), result.remarks
    report = check(before, result.module, "main")
    assert (report.passed, report.exact) == (True, True), f"{report}\n{before}"
    assert flops(result.module) <= flops(before)


@settings(deadline=None, max_examples=40)
@given(problems(directions=[Direction.DGRAD], dtypes=["f32", "bf16"]))
def test_the_pipeline_is_exact(problem: ConvProblem) -> None:
    module = ModuleOp([function_of("main", problem)])
    report = check(module, run(module, "backward-data").module, "main")
    assert (report.passed, report.exact) == (True, True), f"{report}\n{module}"


@dataclass(frozen=True)
class Axis:
    """A dimension that is read at `stride * y + dilation * r + constant`."""

    size: int
    spacing: int
    offset: int
    tail: int
    taps: int
    stride: int
    dilation: int
    constant: int

    @property
    def extent(self) -> int:
        """The scattered size, enough for one output."""
        reach = self.dilation * (self.taps - 1) + self.constant + 1
        return max(self.offset + self.spacing * (self.size - 1) + 1 + self.tail, reach)

    @property
    def outputs(self) -> int:
        return (
            self.extent - 1 - self.dilation * (self.taps - 1) - self.constant
        ) // self.stride + 1


@dataclass(frozen=True)
class Case:
    """A scatter, a contraction of its windows, and elementwise ops."""

    axes: tuple[Axis, ...]
    element: str
    init: int | None
    """What the init is filled with; None for an argument."""
    filter_first: bool
    result_reversed: bool
    chain: tuple[str, ...]

    @property
    def wide(self) -> str:
        return {"f16": "f32", "i8": "i32"}.get(self.element, self.element)


def shaped(shape: Sequence[int], element: str) -> str:
    return "tensor<" + "".join(f"{size}x" for size in shape) + f"{element}>"


def affine(loops: Sequence[str], results: Sequence[str]) -> str:
    return f"affine_map<({', '.join(loops)}) -> ({', '.join(results)})>"


def step(case: Case, number: int, op: str, shape: list[int]) -> tuple[str, list[int]]:
    """The text of one elementwise op, and the shape of its result."""
    wide, kind = case.wide, "i" if case.element[0] == "i" else "f"
    loops = [f"d{i}" for i in range(len(shape))]
    order = loops[::-1] if op == "transpose" else loops
    after = shape[::-1] if op == "transpose" else shape
    constant = "3" if kind == "i" else "3.0"
    body = {
        "transpose": ("", "%v"),
        "add": (
            f"%k = arith.constant {constant} : {wide}\n%z = arith.add{kind} %v, %k : {wide}",
            "%z",
        ),
        "square": (f"%z = arith.mul{kind} %v, %v : {wide}", "%z"),
        "mask": (f"%z = arith.mul{kind} %v, %o : {wide}", "%z"),
    }[op]
    source, target = shaped(shape, wide), shaped(after, wide)
    start = f"%e{number} = tensor.empty() : {target}"
    if op == "mask":
        start = f"%e{number} = arith.constant dense<{constant}> : {target}"
    parallel = ", ".join('"parallel"' for _ in shape)
    text = f"""{start}
      %r{number + 1} = linalg.generic {{
          indexing_maps = [{affine(loops, loops)}, {affine(loops, order)}],
          iterator_types = [{parallel}]}}
          ins(%r{number} : {source}) outs(%e{number} : {target}) {{
      ^bb0(%v: {wide}, %o: {wide}):
        {body[0]}
        linalg.yield {body[1]} : {wide}
      }} -> {target}
    """
    return text, after


def function(case: Case) -> str:
    """`%x`: N, space, C; `%w`: F, taps, C; the result: N, space, F or the reverse."""
    axes, element, wide = case.axes, case.element, case.wide
    kind = "i" if element[0] == "i" else "f"
    rank = len(axes)
    y, r = [f"y{i}" for i in range(rank)], [f"r{i}" for i in range(rank)]
    loops = ["n", *y, "f", *r, "c"]
    source = shaped([2, *(axis.size for axis in axes), 3], element)
    scattered = shaped([2, *(axis.extent for axis in axes), 3], element)
    weights = shaped([2, *(axis.taps for axis in axes), 3], element)
    order = ["n", *y, "f"]
    shape = [2, *(axis.outputs for axis in axes), 2]
    if case.result_reversed:
        order, shape = order[::-1], shape[::-1]
    result = shaped(shape, wide)
    windows = [
        f"{axis.stride} * {y[i]} + {axis.dilation} * {r[i]} + {axis.constant}"
        for i, axis in enumerate(axes)
    ]
    inputs = [
        ("%s", scattered, affine(loops, ["n", *windows, "c"])),
        ("%w", weights, affine(loops, ["f", *r, "c"])),
    ]
    if case.filter_first:
        inputs.reverse()
    slices = [
        [0, *(axis.offset for axis in axes), 0],
        [2, *(axis.size for axis in axes), 3],
        [1, *(axis.spacing for axis in axes), 1],
    ]
    zero = "0" if kind == "i" else "0.0"
    casts, factors = "", ("%a", "%b")
    if wide != element:
        extend = "arith.extsi" if kind == "i" else "arith.extf"
        casts = f"%p = {extend} %a : {element} to {wide}\n%q = {extend} %b : {element} to {wide}"
        factors = ("%p", "%q")
    kinds = ['"reduction"' if loop[0] in "rc" else '"parallel"' for loop in loops]
    argument, init = f", %init: {result}", ""
    if case.init is not None:
        number = case.init if kind == "i" else float(case.init)
        argument = ""
        init = f"""%fill = arith.constant {number} : {wide}
          %empty = tensor.empty() : {result}
          %init = linalg.fill ins(%fill : {wide}) outs(%empty : {result}) -> {result}"""
    chain = ""
    for number, op in enumerate(case.chain):
        text, shape = step(case, number, op, shape)
        chain += text
    returned = shaped(shape, wide)
    return f"""
    func.func @main(%x: {source}, %w: {weights}{argument}) -> {returned} {{
      %zeros = arith.constant dense<{zero}> : {scattered}
      %s = tensor.insert_slice %x into %zeros{slices[0]}{slices[1]}{slices[2]}
          : {source} into {scattered}
      {init}
      %r0 = linalg.generic {{
          indexing_maps = [{inputs[0][2]}, {inputs[1][2]}, {affine(loops, order)}],
          iterator_types = [{", ".join(kinds)}]}}
          ins({inputs[0][0]}, {inputs[1][0]} : {inputs[0][1]}, {inputs[1][1]})
          outs(%init : {result}) {{
      ^bb0(%a: {element}, %b: {element}, %acc: {wide}):
        {casts}
        %m = arith.mul{kind} {factors[0]}, {factors[1]} : {wide}
        %t = arith.add{kind} %acc, %m : {wide}
        linalg.yield %t : {wide}
      }} -> {result}
      {chain}
      return %r{len(case.chain)} : {returned}
    }}"""


axes = st.builds(
    Axis,
    size=st.integers(1, 4),
    spacing=st.integers(1, 4),
    offset=st.integers(0, 4),
    tail=st.integers(0, 3),
    taps=st.integers(1, 4),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 4),
    constant=st.integers(0, 2),
)
cases = st.builds(
    Case,
    axes=st.lists(axes, min_size=1, max_size=2).map(tuple),
    element=st.sampled_from(["f16", "f32", "f64", "i8", "i32"]),
    init=st.sampled_from([0, 0, 2, None]),
    filter_first=st.booleans(),
    result_reversed=st.booleans(),
    chain=st.lists(
        st.sampled_from(["transpose", "add", "square", "mask"]), max_size=3, unique=True
    ).map(tuple),
)


def still_scattered(module: ModuleOp) -> list[Scatter]:
    """The strided scatters that contractions read."""
    contractions = [contraction_dims(op) for op in module.walk()]
    operands = [
        operand.value
        for dims in contractions
        if not isinstance(dims, Refusal)
        for operand in dims.inputs
    ]
    found = [scatter_of(value) for value in operands]
    return [one for one in found if isinstance(one, Scatter) and one.strided]


@settings(deadline=None, max_examples=150)
@given(cases)
def test_windows_of_any_stride_are_exact(case: Case) -> None:
    text = function(case)
    before = read_module(text, "case.mlir")
    result = run(before, FORCED)
    report = check(before, result.module, "main")
    assert (report.passed, report.exact) == (True, True), f"{report}\n{text}\n{result.module}"
    strided = [axis for axis in case.axes if axis.spacing > 1 and axis.size > 1]
    fires = any(axis.taps > 1 for axis in strided)
    if fires or not any(axis.taps > 1 for axis in case.axes if axis.size == 1):
        assert any(remark.fired for remark in result.remarks) == fires, text
    if fires:
        assert not still_scattered(result.module), f"{text}\n{result.module}"


@st.composite
def upsamplings(draw: st.DrawFn) -> ConvProblem:
    """Gradients with one to three strides of taps in one to three dimensions, padded or not."""
    problem = draw(problems(directions=[Direction.DGRAD]))
    geometry, rank = problem.geometry, len(problem.taps)
    strides = tuple(draw(st.integers(1, 3 if rank < 3 else 2)) for _ in range(rank))
    taps = tuple(stride * draw(st.integers(1, 3 if rank < 2 else 2)) for stride in strides)
    low, high = (tuple(draw(st.integers(0, tap - 1)) for tap in taps) for _ in range(2))
    least = [max(1, tap - sum(pads)) for tap, *pads in zip(taps, low, high, strict=True)]
    return replace(
        problem,
        spatial=tuple(size + draw(st.integers(0, 4 // rank)) for size in least),
        taps=taps,
        geometry=replace(
            geometry, strides=strides, pad_low=low, pad_high=high, dilations=(1,) * rank
        ),
    )


def shuffle(op: Operation, position: int, scatter: Scatter) -> PixelShuffle | Refusal:
    """The pixel shuffle of a contraction, whatever phases cost."""
    dims = contraction_of(op, scatter)
    operand = dims if isinstance(dims, Refusal) else read_scattered(dims, position, scatter)
    return operand if isinstance(operand, Refusal) else plan_shuffle(operand)


@settings(deadline=None, max_examples=60)
@given(upsamplings())
def test_pixel_shuffles_are_exact(problem: ConvProblem) -> None:
    before = run(ModuleOp([function_of("main", problem)]), "convert-conv-to-linalg").module
    after = before.clone()
    RewriteReaders(DECOMPOSE, shuffle).rewrite_module(after)
    report = check(before, read_module(str(after)), "main")
    assert (report.passed, report.exact) == (True, True), f"{report}\n{before}\n{after}"
    if splits(problem):
        assert all(op.name != "tensor.insert_slice" for op in after.walk()), f"{before}\n{after}"


def test_one_element_is_a_pixel_shuffle() -> None:
    """The patch embedding of one patch an image: its gradient scatters one element."""
    line = "conv -n 4 -c 3 -H 9 -W 9 -k 4 -y 9 -x 9 -u 9 -v 9 -F 2 --in_layout NCHW"
    before = run(module_of_line(parse_line(line)), "convert-conv-to-linalg").module
    result = run(before, DECOMPOSE)
    (reason,) = (remark.reason for remark in result.remarks if remark.fired)
    assert "81x fewer" in reason
    assert "one contraction with 81 taps as columns, then a shuffle" in reason
    report = check(before, result.module, "main")
    assert (report.passed, report.exact) == (True, True)


LIT = Path(__file__).parents[3] / "lit" / "passes" / DECOMPOSE
REWRITTEN = (LIT / f"{DECOMPOSE}.mlir").read_text()
REFUSED = (LIT / f"{DECOMPOSE}-refused.mlir").read_text()


def functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp)]


@pytest.mark.parametrize(
    "name",
    [function.sym_name.data for function in functions(read_module(REWRITTEN, DECOMPOSE))],
)
def test_rewritten_lit_cases_compute_the_same(name: str) -> None:
    before = read_module(REWRITTEN, DECOMPOSE)
    after = run(before, FORCED).module
    old, new = (
        next(f for f in functions(module) if f.sym_name.data == name) for module in (before, after)
    )
    assert str(old) != str(new)
    report = check(before, after, name, seed=1)
    assert (report.passed, report.exact) == (True, True), report


def test_refused_lit_cases_are_left_as_they_are() -> None:
    before = read_module(REFUSED, DECOMPOSE)
    assert str(run(before, DECOMPOSE).module) == str(before)


@pytest.mark.parametrize(
    "options",
    [
        "-n 2 -c 8 -H 9 -W 9 -k 12 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 4",
        "-n 2 -c 8 -H 8 -W 8 -k 4 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -g 1",
        "-n 2 -c 4 -H 9 -W 12 -k 4 -y 2 -x 3 -p 0 -q 0 -u 3 -v 2 -g 1",
    ],
)
def test_all_phases_are_one_contraction_kernel_of_the_host(options: str) -> None:
    layouts = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    before = module_of_line(parse_line(f"conv {options} -F 2 {layouts}"))
    tensors = run(before, "backward-data").module
    selected = run(tensors, "fuse-epilogue,form-kernel-regions,select-kernels").module
    stores = [op for op in selected.walk() if op.name == "tensor.insert_slice"]
    (region,) = {op.parent_op() for op in stores}
    assert isinstance(region, RegionOp)
    assert region.configs is not None
    assert region.configs.data["host"] == StringAttr("implicit-gemm"), selected
    executable = convir_compile(tensors, [], "host")
    arguments = [
        np.random.default_rng(seed).integers(-3, 4, spec.shape).astype(spec.dtype)
        for seed, spec in enumerate(executable.inputs)
    ]
    (expected,) = evaluate(before, "main", arguments)
    poison = np.full(executable.outputs[0].shape, np.nan, np.float32)
    np.testing.assert_array_equal(executable(*arguments, out=poison), expected)
