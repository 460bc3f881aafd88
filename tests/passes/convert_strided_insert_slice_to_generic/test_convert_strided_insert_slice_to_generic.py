"""Scatters before and after the pass are equal in every bit, whatever their shape and spelling."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.analysis.scatter.generic import scatter_generic
from convir.dialects.context import read_module
from convir.passes import run
from convir.reference import evaluate

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Array = npt.NDArray[Any]

PASS = "convert-strided-insert-slice-to-generic"

DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
}


@dataclass(frozen=True)
class Dim:
    """One dimension of the destination."""

    offset: int
    size: int
    stride: int
    tail: int
    """Positions after the last element."""
    dropped: bool = False
    dynamic_offset: bool = False
    dynamic_size: bool = False
    dynamic_stride: bool = False
    dynamic_extent: bool = False

    @property
    def extent(self) -> int:
        return self.offset + (self.size - 1) * self.stride + 1 + self.tail


@dataclass(frozen=True)
class Case:
    """One insertion into a destination of one kind."""

    dims: tuple[Dim, ...]
    element: str = "f32"
    dest: Literal["constant", "fill", "splat", "argument"] = "constant"

    @property
    def source_shape(self) -> tuple[int, ...]:
        return tuple(dim.size for dim in self.dims if not dim.dropped)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(dim.extent for dim in self.dims)

    @property
    def fill_text(self) -> str:
        if self.element == "i1":
            return "true"
        return "-1.5" if "f" in self.element else "7"

    def text(self) -> str:
        """A function of the source, the destination or its scalar, and the dynamic numbers."""
        source = tensor_type(
            [dim.size for dim in self.dims if not dim.dropped],
            [dim.dynamic_size for dim in self.dims if not dim.dropped],
            self.element,
        )
        dynamic_extents = self.dest in ("splat", "argument")
        result = tensor_type(
            self.shape, [dim.dynamic_extent and dynamic_extents for dim in self.dims], self.element
        )
        arguments = [f"%x: {source}", f"%c: {self.element}", f"%d: {result}"]
        body: list[str] = ["%c1 = arith.constant 1 : index"]
        lists: list[list[str]] = [[], [], []]
        for number, dim in enumerate(self.dims):
            entries = (
                ("offset", dim.offset, dim.dynamic_offset),
                ("size", dim.size, dim.dynamic_size),
                ("stride", dim.stride, dim.dynamic_stride),
            )
            for slot, (name, value, is_dynamic) in enumerate(entries):
                arguments.append(f"%{name}{number}: index")
                lists[slot].append(f"%{name}_{number}" if is_dynamic else str(value))
                body.append(f"%{name}_{number} = arith.maxsi %{name}{number}, %c1 : index")
            if dim.dynamic_offset:
                lists[0][-1] = f"%offset{number}"
            arguments.append(f"%extent{number}: index")
        body.extend(self.destination(result, dynamic_extents))
        slots = "".join(f"[{', '.join(entries)}] " for entries in lists)
        body.append(f"%r = tensor.insert_slice %x into %dest{slots}: {source} into {result}")
        lines = "\n  ".join([*body, f"return %r : {result}"])
        return f"func.func @main({', '.join(arguments)}) -> {result} {{\n  {lines}\n}}"

    def destination(self, result: str, dynamic_extents: bool) -> list[str]:
        sizes = ", ".join(
            f"%extent{number}"
            for number, dim in enumerate(self.dims)
            if dim.dynamic_extent and dynamic_extents
        )
        match self.dest:
            case "constant":
                return [f"%dest = arith.constant dense<{self.fill_text}> : {result}"]
            case "fill":
                return [
                    f"%k = arith.constant {self.fill_text}"
                    + ("" if self.element == "i1" else f" : {self.element}"),
                    f"%e = tensor.empty() : {result}",
                    f"%dest = linalg.fill ins(%k : {self.element}) outs(%e : {result}) -> {result}",
                ]
            case "splat":
                return [f"%dest = tensor.splat %c{f'[{sizes}]' if sizes else ''} : {result}"]
            case "argument":
                return [f"%dest = tensor.cast %d : {result} to {result}"]

    def arguments(self) -> list[Array]:
        dtype = DTYPES[self.element]
        rng = np.random.default_rng(0)
        values = [
            rng.integers(-8, 8, self.source_shape).astype(dtype),
            np.array(3).astype(dtype),
            rng.integers(-8, 8, self.shape).astype(dtype),
        ]
        for dim in self.dims:
            values.extend(np.array([dim.offset, dim.size, dim.stride, dim.extent]))
        return values

    def expected(self) -> Array:
        """The insertion as NumPy writes it."""
        source, scalar, background, *_ = self.arguments()
        fill = np.array({"true": 1, "-1.5": -1.5, "7": 7}[self.fill_text]).astype(source.dtype)
        holes = {"constant": fill, "fill": fill, "splat": scalar, "argument": background}
        result = np.empty(self.shape, source.dtype)
        result[...] = holes[self.dest]
        window = tuple(
            slice(dim.offset, dim.offset + (dim.size - 1) * dim.stride + 1, dim.stride)
            for dim in self.dims
        )
        result[window] = source.reshape([dim.size for dim in self.dims])
        return result


def tensor_type(shape: tuple[int, ...] | list[int], dynamic: list[bool], element: str) -> str:
    sizes = ["?" if is_dynamic else str(n) for n, is_dynamic in zip(shape, dynamic, strict=True)]
    return f"tensor<{'x'.join([*sizes, element])}>"


def rewritten(text: str, options: str = "force=true pads=true") -> ModuleOp:
    return run(text, f"{PASS}{{{options}}}").module


def check(case: Case) -> ModuleOp:
    module = rewritten(case.text())
    args, expected = case.arguments(), case.expected()
    (before,) = evaluate(read_module(case.text()), "main", args)
    (after,) = evaluate(module, "main", args)
    assert before.tobytes() == expected.tobytes()
    assert after.tobytes() == expected.tobytes()
    return module


def names(module: ModuleOp) -> set[str]:
    return {op.name for op in module.walk()}


dims = st.builds(
    Dim,
    offset=st.integers(0, 6),
    size=st.integers(1, 4),
    stride=st.integers(1, 5),
    tail=st.integers(0, 4),
    dynamic_offset=st.booleans(),
    dynamic_stride=st.booleans(),
    dynamic_size=st.booleans(),
    dynamic_extent=st.booleans(),
) | st.builds(
    Dim,
    offset=st.integers(0, 3),
    size=st.just(1),
    stride=st.integers(1, 3),
    tail=st.integers(0, 2),
    dropped=st.just(True),
)

cases = st.builds(
    Case,
    dims=st.lists(dims, min_size=1, max_size=4).map(tuple),
    element=st.sampled_from(list(DTYPES)),
    dest=st.sampled_from(["constant", "fill", "splat", "argument"]),
).filter(lambda case: (case.element, case.dest) != ("index", "fill"))


@settings(deadline=None)
@given(cases)
def test_equal_in_every_bit(case: Case) -> None:
    check(case)


static_dims = st.builds(
    Dim,
    offset=st.integers(0, 6),
    size=st.integers(1, 4),
    stride=st.integers(1, 5),
    tail=st.integers(0, 4),
)


@settings(deadline=None)
@given(st.lists(static_dims, min_size=1, max_size=4), st.sampled_from(["constant", "argument"]))
def test_the_generic_is_read_back(dims: list[Dim], dest: Literal["constant", "argument"]) -> None:
    case = Case(tuple(dims), dest=dest)
    module = check(case)
    generics = [op for op in module.walk() if op.name == "linalg.generic"]
    if all(dim.size == dim.extent for dim in dims):
        assert not generics
        return
    view = scatter_generic(generics[0])
    assert not isinstance(view, Refusal)
    assert view.offsets == tuple(dim.offset for dim in dims)
    assert view.sizes == tuple(dim.size for dim in dims)
    assert view.strides == tuple(1 if dim.size == 1 else dim.stride for dim in dims)
    assert (view.dest is None) == (dest == "constant")


@pytest.mark.parametrize("stride", range(1, 6))
@pytest.mark.parametrize("offset", range(7))
def test_every_small_dimension(offset: int, stride: int) -> None:
    """Each omitted test and clamp is one that no position needs: reads are bounds-checked."""
    for size, tail in product(range(1, 4), range(7)):
        check(Case((Dim(offset, size, stride, tail),)))


def test_power_of_two_never_divides() -> None:
    module = check(Case((Dim(1, 3, 2, 2), Dim(5, 3, 4, 0), Dim(0, 2, 8, 7))))
    assert not names(module) & {"arith.divsi", "arith.remsi"}
    assert {"arith.shrsi", "arith.andi"} <= names(module)


def test_dimension_that_the_source_fills_needs_no_arithmetic() -> None:
    module = check(Case((Dim(0, 4, 1, 0), Dim(0, 3, 2, 1), Dim(0, 5, 1, 0))))
    comparisons = [op for op in module.walk() if op.name == "arith.cmpi"]
    assert len(comparisons) == 1


def test_high_padding_of_dimensions_that_a_reader_may_collapse() -> None:
    check(Case((Dim(1, 3, 2, 1), Dim(0, 2, 1, 2), Dim(0, 3, 1, 1))))


def test_dynamic_batch() -> None:
    text = """
    func.func @main(%x: tensor<?x4xf32>) -> tensor<?x9xf32> {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %n = tensor.dim %x, %c0 : tensor<?x4xf32>
      %empty = tensor.empty(%n) : tensor<?x9xf32>
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x9xf32>) -> tensor<?x9xf32>
      %r = tensor.insert_slice %x into %zeros[0, 1] [%n, 4] [1, 2]
        : tensor<?x4xf32> into tensor<?x9xf32>
      return %r : tensor<?x9xf32>
    }"""
    module = rewritten(text, "force=true")
    assert "tensor.insert_slice" not in names(module)
    for batch in (0, 3):
        x = np.arange(4 * batch, dtype=np.float32).reshape(batch, 4)
        (before,) = evaluate(read_module(text), "main", [x])
        (after,) = evaluate(module, "main", [x])
        np.testing.assert_array_equal(after, before, strict=True)


pads = st.lists(
    st.tuples(static_dims, st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3
)


@settings(deadline=None)
@given(pads, st.sampled_from(["0.0", "2.0"]))
def test_pads_around_scatters(padded: list[tuple[Dim, int, int]], value: str) -> None:
    dims = [dim for dim, _, _ in padded]
    inner = tensor_type([dim.extent for dim in dims], [False] * len(dims), "f32")
    source = tensor_type([dim.size for dim in dims], [False] * len(dims), "f32")
    outer = tensor_type(
        [dim.extent + low + high for dim, low, high in padded], [False] * len(dims), "f32"
    )
    slots = "".join(
        f"[{', '.join(str(getattr(dim, name)) for dim in dims)}]"
        for name in ("offset", "size", "stride")
    )
    text = f"""
    func.func @main(%x: {source}) -> {outer} {{
      %value = arith.constant {value} : f32
      %zeros = arith.constant dense<0.0> : {inner}
      %0 = tensor.insert_slice %x into %zeros{slots} : {source} into {inner}
      %1 = tensor.pad %0 low[{", ".join(str(low) for _, low, _ in padded)}]
          high[{", ".join(str(high) for _, _, high in padded)}] {{
      ^bb0({", ".join(f"%i{number}: index" for number in range(len(dims)))}):
        tensor.yield %value : f32
      }} : {inner} to {outer}
      return %1 : {outer}
    }}"""
    x = np.arange(1, 1 + np.prod([dim.size for dim in dims]), dtype=np.float32)
    x = x.reshape([dim.size for dim in dims])
    (before,) = evaluate(read_module(text), "main", [x])
    for options in ("force=true", "force=true pads=true"):
        (after,) = evaluate(rewritten(text, options), "main", [x])
        np.testing.assert_array_equal(after, before, strict=True)
