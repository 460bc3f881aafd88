"""Functions that are as deep as they have operations, each in what one analysis or pass follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def _function(arguments: str, lines: Sequence[str], result: str, result_type: str) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return (
        f"func.func @main({arguments}) -> {result_type} {{\n{body}"
        f"  return {result} : {result_type}\n}}\n"
    )


def constants(depth: int) -> str:
    """Each constant is computed from the one before, and read by what is not constant."""
    lines = ["%k0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>"]
    for i in range(1, depth):
        lines.append(f"%k{i} = arith.maximumf %k{i - 1}, %k0 : tensor<2xf32>")
        lines.append(f"%x{i} = arith.addf %x{i - 1}, %k{i} : tensor<2xf32>")
    return _function("%x0: tensor<2xf32>", lines, f"%x{depth - 1}", "tensor<2xf32>")


def reshaped_constant(depth: int) -> str:
    """One computed constant behind reshapes, which cost nothing."""
    lines = ["%k = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>"]
    lines.append("%r0 = arith.addf %k, %k : tensor<2xf32>")
    for i in range(1, depth):
        wide = f"tensor.expand_shape %r{i - 1} [[0, 1]] output_shape [1, 2]"
        lines.append(f"%w{i} = {wide} : tensor<2xf32> into tensor<1x2xf32>")
        flat = f"tensor.collapse_shape %w{i} [[0, 1]]"
        lines.append(f"%r{i} = {flat} : tensor<1x2xf32> into tensor<2xf32>")
    lines.append(f"%y = arith.addf %x, %r{depth - 1} : tensor<2xf32>")
    return _function("%x: tensor<2xf32>", lines, "%y", "tensor<2xf32>")


def samples(depth: int) -> str:
    """Three samples, each a long chain in front of its matrix product."""
    lines = ["%z = arith.constant dense<0.0> : tensor<4x4xf32>"]
    for i in range(3):
        lines.append(
            f"%v{i}_0 = tensor.extract_slice %x[{i}, 0, 0] [1, 4, 4] [1, 1, 1] : "
            "tensor<3x4x4xf32> to tensor<4x4xf32>"
        )
        lines += [f"%v{i}_{j} = math.absf %v{i}_{j - 1} : tensor<4x4xf32>" for j in range(1, depth)]
        lines.append(
            f"%p{i} = linalg.matmul ins(%w, %v{i}_{depth - 1} : tensor<4x4xf32>, tensor<4x4xf32>) "
            "outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>"
        )
        lines.append(
            f"%r{i + 1} = tensor.insert_slice %p{i} into %r{i}[{i}, 0, 0] [1, 4, 4] [1, 1, 1] : "
            "tensor<4x4xf32> into tensor<3x4x4xf32>"
        )
    arguments = "%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %r0: tensor<3x4x4xf32>"
    return _function(arguments, lines, "%r3", "tensor<3x4x4xf32>")


def sizes(depth: int) -> str:
    """Each slice has both sizes of the one before, which only its ops say."""
    lines = ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
    tensor = "tensor<?x?xf32>"
    for i in range(1, depth):
        lines.append(f"%m{i} = tensor.dim %s{i - 1}, %c0 : {tensor}")
        lines.append(f"%n{i} = tensor.dim %s{i - 1}, %c1 : {tensor}")
        slice_ = f"tensor.extract_slice %s{i - 1}[%k, 0] [%m{i}, %n{i}] [%k, 1]"
        lines.append(f"%s{i} = {slice_} : {tensor} to {tensor}")
    last = depth - 1
    lines.append("%z = arith.constant dense<0.0> : tensor<8x8xf32>")
    lines.append(
        f"%p = tensor.insert_slice %s{last} into %z[0, 0] [%m{last}, %n{last}] [2, 2] : "
        f"{tensor} into tensor<8x8xf32>"
    )
    return _function(f"%s0: {tensor}, %k: index", lines, "%p", "tensor<8x8xf32>")


def concatenation(depth: int) -> str:
    """Slices of a long chain of insertions, each of another insertion's part."""
    whole = f"tensor<{depth}x4xf32>"
    lines = [f"%c0 = tensor.empty() : {whole}"]
    for i in range(depth):
        lines.append(f"%v{i + 1} = arith.addf %v{i}, %v0 : tensor<4xf32>")
        insertion = f"tensor.insert_slice %v{i + 1} into %c{i}[{i}, 0] [1, 4] [1, 1]"
        lines.append(f"%c{i + 1} = {insertion} : tensor<4xf32> into {whole}")
    for i in range(depth):
        part = f"tensor.extract_slice %c{depth}[{i}, 0] [1, 4] [1, 1]"
        lines.append(f"%p{i} = {part} : {whole} to tensor<4xf32>")
        lines.append(f"%y{i + 1} = arith.maximumf %{f'y{i}' if i else 'v0'}, %p{i} : tensor<4xf32>")
    return _function("%v0: tensor<4xf32>", lines, f"%y{depth}", "tensor<4xf32>")


def scattered(depth: int) -> str:
    """A scatter, a long chain that keeps zeros, a product, and a long chain behind it."""
    tensor = "tensor<8x8xf32>"
    lines = [
        f"%z = arith.constant dense<0.0> : {tensor}",
        f"%a0 = tensor.insert_slice %x into %z[0, 0] [4, 8] [2, 1] : tensor<4x8xf32> into {tensor}",
        *(f"%a{i} = math.absf %a{i - 1} : {tensor}" for i in range(1, depth)),
        f"%b0 = linalg.matmul ins(%a0, %w : {tensor}, {tensor}) outs(%z : {tensor}) -> {tensor}",
        *(f"%b{i} = math.absf %b{i - 1} : {tensor}" for i in range(1, depth)),
        f"%y = arith.addf %a{depth - 1}, %b{depth - 1} : {tensor}",
    ]
    return _function(f"%x: tensor<4x8xf32>, %w: {tensor}", lines, "%y", tensor)


def separated_convolutions(depth: int) -> str:
    """Convolutions with reshapes between, so that each could have a layout of its own."""
    image = "tensor<1x2x3x3xf32>"
    lines = [f"%z = arith.constant dense<0.0> : {image}"]
    for i in range(1, depth):
        flat = f"tensor.collapse_shape %x{i - 1} [[0, 1, 2, 3]] : {image} into tensor<18xf32>"
        lines.append(f"%f{i} = {flat}")
        lines.append(
            f"%g{i} = tensor.expand_shape %f{i} [[0, 1, 2, 3]] output_shape [1, 2, 3, 3] : "
            f"tensor<18xf32> into {image}"
        )
        lines.append(
            f"%y{i} = conv.fprop layouts(NCHW, KCRS, NCHW) strides(1, 1) padding(1, 1) "
            f"ins(%g{i}, %w : {image}, tensor<2x2x3x3xf32>) outs(%z : {image})"
        )
        lines.append(f"%x{i} = math.tanh %y{i} : {image}")
    return _function(f"%x0: {image}, %w: tensor<2x2x3x3xf32>", lines, f"%x{depth - 1}", image)


def doubled_index(depth: int) -> str:
    """A gather at an index that is doubled at each level."""
    lines = [f"%i{i} = arith.addi %i{i - 1}, %i{i - 1} : index" for i in range(1, depth)]
    body = "".join(f"    {line}\n" for line in lines)
    generic = (
        "%g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], "
        'iterator_types = ["parallel"]} outs(%e : tensor<4xf32>) {\n'
        "  ^bb0(%o: f32):\n    %i0 = linalg.index 0 : index\n"
        f"{body}    %v = tensor.extract %x[%i{depth - 1}] : tensor<?xf32>\n"
        "    linalg.yield %v : f32\n  } -> tensor<4xf32>"
    )
    lines = ["%e = tensor.empty() : tensor<4xf32>", generic]
    return _function("%x: tensor<?xf32>", lines, "%g", "tensor<4xf32>")


KINDS: Mapping[str, Callable[[int], str]] = {
    made.__name__: made
    for made in (
        constants,
        reshaped_constant,
        samples,
        sizes,
        concatenation,
        scattered,
        separated_convolutions,
        doubled_index,
    )
}
"""What each kind is called, and what writes it so deep."""
