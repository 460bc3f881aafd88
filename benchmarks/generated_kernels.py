"""The bandwidth of generated CUDA kernels, beside a device-to-device copy and PyTorch.

    python benchmarks/generated_kernels.py [--only TEXT] [--json FILE] [--repeats N]

One row a kernel: the bytes that the formula has to read and write, each element once, over the
median time of a call (events, the L2 cache flushed before), as a share of what a copy of 2 GiB
reaches in the same run, and the time of PyTorch doing the same. Outputs are filled with NaN before
they are checked against PyTorch's. Exit status 1 if a kernel is wrong or fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from convir.api.compile import compile as convir_compile
from convir.frontends.miopen import parse_line, strip_comment
from convir.frontends.pytorch.importer import import_torch
from convir.runtime.bench.session import gpu_or_exit
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from convir.runtime.bench.cuda import CudaBench

SUITE = Path(__file__).parent / "suites" / "dgrad-1x1-strided.txt"
ELEMENTS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i8": torch.int8}
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "i8": 1}
WARM_UP = 3

torch.backends.cuda.matmul.allow_tf32 = False


@dataclass(frozen=True)
class Case:
    """One kernel: its IR, and what PyTorch does to its arguments."""

    name: str
    text: str
    arguments: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and element type of each."""
    result: tuple[tuple[int, ...], str]
    peer: Callable[..., Any]
    pipeline: str = ""
    exact: bool = True

    @property
    def bytes(self) -> int:
        """What has to be read and written, each element once."""
        return sum(prod(s) * BYTES[t] for s, t in (*self.arguments, self.result))


def _peer(function: Callable[[Any, Any], Any], option: Any) -> Callable[[Any], Any]:
    """What PyTorch does to one array, with an option."""
    return lambda x: function(x, option)


def tensor(shape: tuple[int, ...], element: str) -> str:
    """The type of a tensor."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def scatters() -> Iterator[Case]:
    """Every second pixel of an image of zeros: what a strided 1x1 backward data convolution ends
    with, as an insert_slice and as one generic."""
    for line in SUITE.read_text().splitlines():
        if not strip_comment(line):
            continue
        problem = parse_line(line).problems["main"]
        n, c, (h, w) = problem.n, problem.c, problem.spatial
        small, large = (n, -(-h // 2), -(-w // 2), c), (n, h, w, c)
        element = problem.dtype
        source, result = tensor(small, element), tensor(large, element)
        text = f"""
func.func @main(%x: {source}) -> {result} {{
  %z = arith.constant dense<0.0> : {result}
  %0 = tensor.insert_slice %x into %z[0, 0, 0, 0] {list(small)} [1, 2, 2, 1]
    : {source} into {result}
  return %0 : {result}
}}"""

        def peer(x: Any, large: tuple[int, ...] = large) -> Any:
            out = torch.zeros(large, dtype=x.dtype, device=x.device)
            out[:, ::2, ::2].copy_(x)
            return out

        name = f"{element} {n}x{h}x{w}x{c}"
        arguments = ((small, element),)
        yield Case(f"scatter {name}", text, arguments, (large, element), peer)
        generic = "convert-strided-insert-slice-to-generic{force=true}"
        yield Case(f"scatter generic {name}", text, arguments, (large, element), peer, generic)


def pads() -> Iterator[Case]:
    """A border of one pixel, channels last and first."""
    for layout, low in (("NHWC", (0, 1, 1, 0)), ("NCHW", (0, 0, 1, 1))):
        shape = (32, 100, 100, 256) if layout == "NHWC" else (32, 256, 100, 100)
        out = tuple(size + 2 * pad for size, pad in zip(shape, low, strict=True))
        text = f"""
func.func @main(%x: {tensor(shape, "f16")}) -> {tensor(out, "f16")} {{
  %z = arith.constant 0.0 : f16
  %0 = tensor.pad %x low{list(low)} high{list(low)} {{
  ^bb0(%n: index, %a: index, %b: index, %c: index):
    tensor.yield %z : f16
  }} : {tensor(shape, "f16")} to {tensor(out, "f16")}
  return %0 : {tensor(out, "f16")}
}}"""
        border = [pad for pad in reversed(low) for _ in range(2)]
        yield Case(
            f"pad {layout}",
            text,
            ((shape, "f16"),),
            (out, "f16"),
            _peer(lambda x, border: torch.nn.functional.pad(x, border), border),
        )


def transposes() -> Iterator[Case]:
    """From one layout of an image to the other."""
    for element in ("f16", "f32"):
        for name, order, shape in (
            ("NCHW to NHWC", (0, 2, 3, 1), (32, 256, 100, 100)),
            ("NHWC to NCHW", (0, 3, 1, 2), (32, 100, 100, 256)),
            ("NCHW to NHWC, 7x7", (0, 2, 3, 1), (256, 512, 7, 7)),
        ):
            out = tuple(shape[i] for i in order)
            text = f"""
func.func @main(%x: {tensor(shape, element)}) -> {tensor(out, element)} {{
  %e = tensor.empty() : {tensor(out, element)}
  %0 = linalg.transpose ins(%x : {tensor(shape, element)}) outs(%e : {tensor(out, element)})
    permutation = {list(order)}
  return %0 : {tensor(out, element)}
}}"""
            yield Case(
                f"{element} {name}",
                text,
                ((shape, element),),
                (out, element),
                _peer(lambda x, order: x.permute(order).contiguous(), order),
            )


def chains() -> Iterator[Case]:
    """Bias, addition and rectifier in f32, rounded once."""
    for channels, element in ((256, "f16"), (3, "f16"), (256, "bf16"), (256, "f32")):
        shape = (32, 100, 100, channels)
        widen = (
            ""
            if element == "f32"
            else f"""
    %a32 = arith.extf %a : {element} to f32
    %b32 = arith.extf %b : {element} to f32
    %c32 = arith.extf %c : {element} to f32"""
        )
        a, b, c = ("%a", "%b", "%c") if element == "f32" else ("%a32", "%b32", "%c32")
        end = "linalg.yield %m : f32"
        if element != "f32":
            end = f"%t = arith.truncf %m : f32 to {element}\n    linalg.yield %t : {element}"
        image = tensor(shape, element)
        bias = tensor((channels,), element)
        text = f"""
func.func @main(%x: {image}, %y: {image}, %v: {bias}) -> {image} {{
  %e = tensor.empty() : {image}
  %zero = arith.constant 0.0 : f32
  %0 = linalg.generic {{indexing_maps = [
      affine_map<(n,h,w,c) -> (n,h,w,c)>, affine_map<(n,h,w,c) -> (n,h,w,c)>,
      affine_map<(n,h,w,c) -> (c)>, affine_map<(n,h,w,c) -> (n,h,w,c)>],
      iterator_types = ["parallel","parallel","parallel","parallel"]}}
      ins(%x, %y, %v : {image}, {image}, {bias}) outs(%e : {image}) {{
  ^bb0(%a: {element}, %b: {element}, %c: {element}, %o: {element}):{widen}
    %p = arith.addf {a}, {c} : f32
    %s = arith.addf %p, {b} : f32
    %m = arith.maximumf %s, %zero : f32
    {end}
  }} -> {image}
  return %0 : {image}
}}"""

        def peer(x: Any, y: Any, b: Any) -> Any:
            total = x.float() + b.float() + y.float()
            return total.relu().to(x.dtype)

        yield Case(
            f"{element} bias, add, relu, {channels} channels",
            text,
            ((shape, element), (shape, element), ((channels,), element)),
            (shape, element),
            peer,
        )


def reductions() -> Iterator[Case]:
    """Sums in f32: of rows, of columns, of images, and of all there is."""
    for name, shape, kept in (
        ("rows", (65536, 1024), (0,)),
        ("long rows", (512, 131072), (0,)),
        ("columns", (131072, 512), (1,)),
        ("images, channels last", (32, 100, 100, 256), (0, 3)),
        ("images, channels first", (32, 256, 100, 100), (0, 1)),
        ("channels, channels last", (32, 100, 100, 256), (3,)),
        ("everything", (67108864,), ()),
    ):
        out = tuple(shape[i] for i in kept)
        loops = [f"d{i}" for i in range(len(shape))]
        kinds = ", ".join('"parallel"' if i in kept else '"reduction"' for i in range(len(shape)))
        image, result = tensor(shape, "f16"), tensor(out, "f32")
        text = f"""
func.func @main(%x: {image}) -> {result} {{
  %z = arith.constant dense<0.0> : {result}
  %0 = linalg.generic {{indexing_maps = [
      affine_map<({", ".join(loops)}) -> ({", ".join(loops)})>,
      affine_map<({", ".join(loops)}) -> ({", ".join(loops[i] for i in kept)})>],
      iterator_types = [{kinds}]}} ins(%x : {image}) outs(%z : {result}) {{
  ^bb0(%a: f16, %o: f32):
    %1 = arith.extf %a : f16 to f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  }} -> {result}
  return %0 : {result}
}}"""
        dims = tuple(i for i in range(len(shape)) if i not in kept)
        yield Case(
            f"sum of {name}",
            text,
            ((shape, "f16"),),
            (out, "f32"),
            _peer(lambda x, dims: x.sum(dims, dtype=torch.float32), dims),
            exact=False,
        )


def pools() -> Iterator[Case]:
    """The largest of 3x3 pixels at stride 2, channels last and first."""
    for layout in ("NHWC", "NCHW"):
        last = layout == "NHWC"
        shape = (32, 112, 112, 64) if last else (32, 64, 112, 112)
        out = (32, 55, 55, 64) if last else (32, 64, 55, 55)
        read = "n,2*h+r,2*w+s,c" if last else "n,c,2*h+r,2*w+s"
        written = "n,h,w,c" if last else "n,c,h,w"
        image, result = tensor(shape, "f16"), tensor(out, "f16")
        text = f"""
func.func @main(%x: {image}) -> {result} {{
  %z = arith.constant dense<0xFC00> : {result}
  %k = tensor.empty() : tensor<3x3xf16>
  %0 = linalg.generic {{indexing_maps = [
      affine_map<(n,h,w,c,r,s) -> ({read})>, affine_map<(n,h,w,c,r,s) -> (r,s)>,
      affine_map<(n,h,w,c,r,s) -> ({written})>],
      iterator_types = ["parallel","parallel","parallel","parallel","reduction","reduction"]}}
      ins(%x, %k : {image}, tensor<3x3xf16>) outs(%z : {result}) {{
  ^bb0(%a: f16, %w: f16, %o: f16):
    %2 = arith.maximumf %o, %a : f16
    linalg.yield %2 : f16
  }} -> {result}
  return %0 : {result}
}}"""

        def peer(x: Any, last: bool = last) -> Any:
            image = x.permute(0, 3, 1, 2) if last else x
            pooled = torch.nn.functional.max_pool2d(image, 3, 2)
            return pooled.permute(0, 2, 3, 1) if last else pooled

        yield Case(f"max pool 3x3 s2 {layout}", text, ((shape, "f16"),), (out, "f16"), peer)


class ChannelsLast(torch.nn.Module):
    """A module of images, on images whose channels lie last."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of N x pixels x C."""
        return self.inner(x.movedim(-1, 1)).movedim(1, -1)


def normalisations() -> Iterator[Case]:
    """Passes over rows, and over columns."""
    nn = torch.nn
    for name, made, shape in (
        ("LayerNorm 768", nn.LayerNorm(768), (32, 197, 768)),
        ("GroupNorm 32, channels first", nn.GroupNorm(32, 128), (8, 128, 64, 64)),
        ("GroupNorm 32, channels last", ChannelsLast(nn.GroupNorm(32, 128)), (8, 64, 64, 128)),
        ("InstanceNorm, channels first", nn.InstanceNorm3d(32), (2, 32, 96, 96, 96)),
        (
            "InstanceNorm, channels last",
            ChannelsLast(nn.InstanceNorm3d(32)),
            (2, 96, 96, 96, 32),
        ),
        ("softmax 197", nn.Softmax(-1), (32, 12, 197, 197)),
    ):
        module: Any = made.eval().to(torch.float16)
        text = str(import_torch(module, (torch.zeros(shape, dtype=torch.float16),)))
        module = module.cuda()

        def peer(x: Any, module: Any = module) -> Any:
            with torch.no_grad():
                return module(x).contiguous()

        tensors = ((shape, "f16"),)
        yield Case(f"f16 {name}", text, tensors, (shape, "f16"), peer, exact=False)


def cases() -> Iterator[Case]:
    """All kernels."""
    for family in (scatters, pads, transposes, chains, reductions, normalisations, pools):
        yield from family()


def row_of(case: Case, bench: CudaBench, copy_gbs: float, repeats: int) -> dict[str, Any]:
    """What one kernel does, or why it fails."""
    row: dict[str, Any] = {"kernel": case.name, "bytes": case.bytes}
    try:
        ours = convir_compile(case.text, pipeline=case.pipeline, device=bench.name)
    except Exception as error:
        return {**row, "failure": f"{type(error).__name__}: {error}"[:500]}
    cupy: Any = toolkit.cupy()
    arguments = [
        torch.randn(shape, device="cuda").to(ELEMENTS[element]) for shape, element in case.arguments
    ]
    expected = case.peer(*arguments)
    out = torch.full_like(expected, float("nan"), memory_format=torch.contiguous_format)
    views = [cupy.from_dlpack(argument) for argument in arguments]
    target = cupy.from_dlpack(out)
    torch.cuda.synchronize()
    ours(*views, out=target)
    cupy.cuda.Device().synchronize()
    error = float((out.double() - expected.double()).abs().max())
    rounding = {"f16": 2.0**-9, "bf16": 2.0**-6}.get(case.result[1], 1e-4)
    allowed = 0.0 if case.exact else rounding * float(expected.double().abs().max())
    times = _times(bench, lambda: ours(*views, out=target), repeats)
    peers = _times(bench, lambda: case.peer(*arguments), repeats)
    us = median(times)
    row |= {
        "us": {"median": us, "p20": _part(times, 0.2), "p80": _part(times, 0.8)},
        "gbs": case.bytes / us / 1e3,
        "of_copy": case.bytes / us / 1e3 / copy_gbs,
        "torch_us": median(peers),
        "error": error,
    }
    if not error <= allowed:
        row["failure"] = f"error {error:.3g} past {allowed:.3g}"
    return row


def _times(bench: CudaBench, call: Callable[[], object], repeats: int) -> list[float]:
    for _ in range(WARM_UP):
        bench.clock(call, 1)
    return [bench.clock(call, 1) for _ in range(repeats)]


def _part(times: list[float], share: float) -> float:
    return float(np.quantile(times, share))


def main() -> None:
    """Measure every kernel and print a table."""
    parser = argparse.ArgumentParser(description="Time the generated kernels of a GPU.")
    parser.add_argument("--only", default="", help="kernels whose names hold this text")
    parser.add_argument("--json", type=Path, help="where the rows go")
    parser.add_argument("--repeats", type=int, default=21)
    options = parser.parse_args()
    bench = gpu_or_exit()
    copy_gbs = bench.ceilings("f16").gbytes
    print(f"{bench.describe()['gpu']}: copy {copy_gbs:.0f} GB/s")
    print(f"{'kernel':44} {'MB':>7} {'us':>8} {'GB/s':>6} {'copy':>5} {'torch us':>9} {'ratio':>6}")
    rows: list[dict[str, Any]] = []
    for case in cases():
        if options.only not in case.name:
            continue
        row = row_of(case, bench, copy_gbs, options.repeats)
        rows.append(row)
        if "us" in row:
            us, peer = row["us"]["median"], row["torch_us"]
            print(
                f"{case.name:44} {case.bytes / 1e6:7.1f} {us:8.1f} {row['gbs']:6.0f} "
                f"{100 * row['of_copy']:4.0f}% {peer:9.1f} {peer / us:6.2f}"
            )
        if "failure" in row:
            print(f"{case.name:44} {row['failure']}")
    if options.json is not None:
        environment = bench.describe()
        text = json.dumps(
            {"environment": environment, "ceilings": {"gbs": copy_gbs}, "rows": rows}, indent=1
        )
        options.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(any("failure" in row for row in rows))


if __name__ == "__main__":
    main()
