"""Programs of any depth: kernels stay small, whatever is read twice, and their results right."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.utils.exceptions import PassFailedException

from convir.api.compile import compile as compile_program
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernel_code import cuda_code
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.loops.nests import lower_kernel
from convir.lowering.pipeline import lowering_passes
from convir.lowering.regions.recomputation import MAX_CODE, MAX_TIMES
from convir.lowering.stages import STAGES
from convir.passes.manager import remarks
from convir.reference import evaluate

ZEROS = {"f32": "0.0", "f64": "0.0", "i32": "0", "i64": "0"}
SUMS = {"f32": "maximumf", "f64": "subf", "i32": "addi", "i64": "addi"}


def slices(of: str, value: str, element: str, sizes: tuple[int, ...], name: str) -> list[str]:
    """The elements of a value from 0 on, and those from 1 on, of one less along each dimension."""
    small = "x".join([*(str(size - 1) for size in sizes), element])
    extents = ", ".join(str(size - 1) for size in sizes)
    ones = ", ".join("1" for _ in sizes)
    return [
        f"  %{name}{number} = tensor.extract_slice {value}"
        f"[{', '.join([str(number)] * len(sizes))}] [{extents}] [{ones}] : {of} to tensor<{small}>"
        for number in (0, 1)
    ]


def pad_diamonds(depth: int, element: str = "f32", rank: int = 1) -> str:
    """Each level adds two slices of the one before, and pads the sum to the size of those."""
    sizes = (9, 5, 3)[:rank]
    whole = f"tensor<{'x'.join(map(str, sizes))}x{element}>"
    small = f"tensor<{'x'.join(str(size - 1) for size in sizes)}x{element}>"
    indices = ", ".join(f"%i{i}: index" for i in range(rank))
    low, high = (", ".join([amount] * rank) for amount in "10")
    lines, last = [f"  %zero = arith.constant {ZEROS[element]} : {element}"], "%x"
    for i in range(depth):
        lines += slices(whole, last, element, sizes, f"s{i}_")
        lines.append(f"  %c{i} = arith.{SUMS[element]} %s{i}_0, %s{i}_1 : {small}")
        lines += [
            f"  %d{i} = tensor.pad %c{i} low[{low}] high[{high}] {{",
            f"  ^bb0({indices}):",
            f"    tensor.yield %zero : {element}",
            f"  }} : {small} to {whole}",
        ]
        last = f"%d{i}"
    return function(f"%x: {whole}", lines, last, whole)


def slice_diamonds(depth: int, element: str = "f32") -> str:
    """Each level adds two slices of the one before, and is an element shorter."""
    lines, last = list[str](), "%x"
    for i in range(depth):
        size = depth + 4 - i
        lines += slices(f"tensor<{size}x{element}>", last, element, (size,), f"s{i}_")
        kind = f"tensor<{size - 1}x{element}>"
        lines.append(f"  %c{i} = arith.{SUMS[element]} %s{i}_0, %s{i}_1 : {kind}")
        last = f"%c{i}"
    return function(f"%x: tensor<{depth + 4}x{element}>", lines, last, f"tensor<4x{element}>")


def chain(depth: int, op: str = "arith.addf {last}, %x") -> str:
    """One elementwise op after another."""
    lines, last = list[str](), "%x"
    for i in range(depth):
        lines.append(f"  %v{i} = {op.format(last=last)} : tensor<8xf32>")
        last = f"%v{i}"
    return function("%x: tensor<8xf32>", lines, last, "tensor<8xf32>")


def generic_chain(depth: int) -> str:
    """One `linalg.generic` after another, each on the transposed result of the one before."""
    kind, lines, last = "tensor<3x3xf32>", ["  %e = tensor.empty() : tensor<3x3xf32>"], "%x"
    for i in range(depth):
        lines.append(
            f"  %v{i} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j, i)>, "
            "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], "
            f'iterator_types = ["parallel", "parallel"]}} ins({last}, %x : {kind}, {kind}) '
            f"outs(%e : {kind}) {{\n  ^bb0(%a: f32, %b: f32, %c: f32):\n"
            "    %s = arith.subf %a, %b : f32\n    linalg.yield %s : f32\n"
            f"  }} -> {kind}"
        )
        last = f"%v{i}"
    return function(f"%x: {kind}", lines, last, kind)


def fan(width: int) -> str:
    """So many slices of one value, summed one by one."""
    lines, last = list[str](), "%zero"
    lines = [
        f"  %s{i} = tensor.extract_slice %x[{i}] [8] [1] : tensor<{width + 8}xf32> to tensor<8xf32>"
        for i in range(width)
    ]
    last = "%s0"
    for i in range(1, width):
        lines.append(f"  %v{i} = arith.addf {last}, %s{i} : tensor<8xf32>")
        last = f"%v{i}"
    return function(f"%x: tensor<{width + 8}xf32>", lines, last, "tensor<8xf32>")


def nested_pads(depth: int) -> str:
    """Padding around padding: so many conditions."""
    lines, last = ["  %zero = arith.constant 0.0 : f32"], "%x"
    for i in range(depth):
        lines += [
            f"  %d{i} = tensor.pad {last} low[1] high[0] {{",
            "  ^bb0(%i: index):",
            "    tensor.yield %zero : f32",
            f"  }} : tensor<{4 + i}xf32> to tensor<{5 + i}xf32>",
        ]
        last = f"%d{i}"
    return function("%x: tensor<4xf32>", lines, last, f"tensor<{4 + depth}xf32>")


def concatenation(count: int) -> str:
    """Many tensors, one behind the other."""
    names = ", ".join(["%x"] * count)
    types = ", ".join(["tensor<3xf32>"] * count)
    result = f"tensor<{3 * count}xf32>"
    line = f"  %y = tensor.concat dim(0) {names} : ({types}) -> {result}"
    return function("%x: tensor<3xf32>", [line], "%y", result)


def scalars(depth: int) -> str:
    """One scalar after another, each added to all elements."""
    kind, lines, last = "tensor<8xf32>", list[str](), "%x"
    for i in range(depth):
        before = f"%s{i - 1}" if i else "%one"
        lines += [
            f"  %s{i} = arith.subf {before}, %half : f32",
            f"  %t{i} = tensor.splat %s{i} : {kind}",
            f"  %v{i} = arith.maximumf {last}, %t{i} : {kind}",
        ]
        last = f"%v{i}"
    given = [f"  %{n} = arith.constant {v} : f32" for n, v in (("one", "1.0"), ("half", "0.5"))]
    return function(f"%x: {kind}", [*given, *lines], last, kind)


def phases(count: int) -> str:
    """Products of matrices, each inserted into every second row of what is there."""
    kind = f"tensor<{2 * count}x2xf32>"
    lines, last = ["  %z = arith.constant dense<0.0> : tensor<1x2xf32>"], "%x"
    for i in range(count):
        lines += [
            f"  %a{i} = tensor.extract_slice %x[{i}, 0] [1, 2] [1, 1] : {kind} to tensor<1x2xf32>",
            f"  %b{i} = tensor.extract_slice %x[{i}, 0] [2, 2] [1, 1] : {kind} to tensor<2x2xf32>",
            f"  %p{i} = linalg.matmul ins(%a{i}, %b{i} : tensor<1x2xf32>, tensor<2x2xf32>)",
            "    outs(%z : tensor<1x2xf32>) -> tensor<1x2xf32>",
            f"  %r{i} = tensor.insert_slice %p{i} into {last}[{2 * i}, 0] [1, 2] [1, 1]",
            f"    : tensor<1x2xf32> into {kind}",
        ]
        last = f"%r{i}"
    return function(f"%x: {kind}", lines, last, kind)


def function(arguments: str, lines: list[str], result: str, kind: str) -> str:
    """The text of a function."""
    body = "\n".join(lines)
    return f"func.func @main({arguments}) -> {kind} {{\n{body}\n  return {result} : {kind}\n}}"


def check(text: str, pipeline: str = "default") -> None:
    """Compile `text` for the host and compare with the reference."""
    executable = compile_program(text, pipeline, device="host")
    (spec,) = executable.inputs
    values = np.random.default_rng(0).integers(-8, 8, spec.shape).astype(spec.dtype)
    with np.errstate(all="ignore"):
        (expected,) = evaluate(read_module(text), "main", [values])
    found = executable(values)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("depth", [12, 40, 300])
@pytest.mark.parametrize(("element", "rank"), [("f32", 1), ("f64", 3), ("i32", 2), ("i64", 1)])
def test_pad_diamonds(depth: int, element: str, rank: int) -> None:
    check(pad_diamonds(depth, element, rank))


@pytest.mark.parametrize("element", ZEROS)
@pytest.mark.parametrize("depth", [16, 40, 200])
def test_slice_diamonds(depth: int, element: str) -> None:
    check(slice_diamonds(depth, element))


@pytest.mark.parametrize(
    "text",
    [
        chain(4000),
        chain(400, "arith.maximumf {last}, {last}"),
        generic_chain(600),
        fan(1000),
        nested_pads(200),
        concatenation(1000),
        scalars(300),
        phases(80),
    ],
    ids=["chain", "squares", "generics", "fan", "pads", "concatenation", "scalars", "phases"],
)
@pytest.mark.parametrize("pipeline", ["default", ""])
def test_long_programs(text: str, pipeline: str) -> None:
    check(text, pipeline)


def regions(text: str) -> tuple[list[kernel.RegionOp], list[remarks.Remark]]:
    """The kernels that form of a function, and what the passes say."""
    module, passes = read_module(text), lowering_passes()
    with remarks.collect() as said:
        for one in passes[: STAGES.index("regions") + 1]:
            one.apply(new_context(), module)
    return [op for op in module.walk() if isinstance(op, kernel.RegionOp)], said


def test_kernels_hold_so_many_ops() -> None:
    for count in (MAX_CODE, MAX_CODE + 1):
        formed, said = regions(chain(count))
        assert len(formed) == -(-count // MAX_CODE)
        reasons = [remark.reason for remark in said]
        wanted = (
            f"its kernel would be {MAX_CODE + 1} ops, more than {MAX_CODE}: it is written to memory"
        )
        assert reasons == ([wanted] if count > MAX_CODE else [])


def test_scalars_of_many_ops_are_stored() -> None:
    _, said = regions(scalars(100))
    assert [remark.reason for remark in said if remark.op == "arith.subf"] == [
        "33 ops compute it: it is written to memory"
    ] * 3


def test_a_full_kernel_has_what_it_reads() -> None:
    """No slice is a kernel of its own."""
    formed, _ = regions(fan(1000))
    assert len(formed) == -(-999 // MAX_CODE)
    assert all(any(op.name == "arith.addf" for op in one.body.block.ops) for one in formed)


@pytest.mark.parametrize("text", [pad_diamonds(60), slice_diamonds(60), chain(300), fan(200)])
def test_code_for_a_gpu_is_as_large_as_the_program(text: str) -> None:
    module = read_module(text)
    for one in lowering_passes("cuda"):
        one.apply(new_context(), module)
    source = cuda_code(module, DEFAULT_TARGET)
    lines_of_an_op = 16
    assert source.count("\n") < lines_of_an_op * MAX_TIMES * text.count("\n")


def test_a_kernel_that_nests_too_deeply_is_refused() -> None:
    """One that is written by hand; those that passes form do not."""
    text = nested_pads(100).replace("func.func @main", "kernel.func @k")
    module = read_module(text.replace("  return ", "  kernel.return "))
    function = next(op for op in module.ops if isinstance(op, kernel.FuncOp))
    with pytest.raises(PassFailedException, match="nested index computations"):
        lower_kernel(function)
