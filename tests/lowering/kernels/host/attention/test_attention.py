"""Attention as one kernel, against NumPy in f64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from host_kernels import TARGETS, poisoned, runnable
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.implementations import ATTENTION, HOST, config_of
from convir.lowering.kernels.host.attention.problem import MOST_KEYS, read
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.target import target
from convir.lowering.kernels.host.workspace import workspace_bytes
from convir.lowering.pipeline import lowering_passes
from convir.passes.manager.remarks import collect
from convir.runtime.executable import Executable
from convir.runtime.host.device import HostProgram
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

EPSILON = 2.0**-24


@dataclass(frozen=True)
class Attention:
    """softmax(Q · K · 0.3 + mask) · V, of groups x queries x sizes."""

    groups: int = 3
    queries: int = 20
    keys: int = 20
    size: int = 16
    """Of a query and a key."""
    columns: int = 16
    """Of a value."""
    mask: str = ""
    """The loops that it has elements of, some of g, q and k; or `causal`; none if empty."""
    transposed: bool = False
    """Whether K lies as keys x sizes."""
    stored: str = "gqc"
    """The order of the result's dimensions."""

    def shape(self, loops: str) -> tuple[int, ...]:
        """Of a tensor."""
        sizes = self.groups, self.queries, self.keys, self.size, self.columns
        return tuple(dict(zip("gqkdc", sizes, strict=True))[loop] for loop in loops)

    @property
    def operands(self) -> dict[str, str]:
        """The loops of each operand."""
        masked = {"causal": "qk"}.get(self.mask, self.mask)
        found = {"q": "gqd", "k": "gkd" if self.transposed else "gdk", "v": "gkc"}
        return {**found, "m": masked} if masked else found

    def type(self, loops: str) -> str:
        """Of a tensor of f32."""
        return f"tensor<{''.join(f'{n}x' for n in self.shape(loops))}f32>"

    def _generic(
        self, name: str, reads: dict[str, str], to: str, init: str, body: str, reduced: str = ""
    ) -> str:
        loops = [*dict.fromkeys("".join((to, *reads.values())))]
        maps = ", ".join(
            f"affine_map<({', '.join(loops)}) -> ({', '.join(order)})>"
            for order in (*reads.values(), to)
        )
        kinds = ", ".join('"reduction"' if x in reduced else '"parallel"' for x in loops)
        arguments = ", ".join(f"%x{i}: f32" for i in range(len(reads)))
        return f"""
  %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
    ins({", ".join(f"%{x}" for x in reads)} : {", ".join(map(self.type, reads.values()))})
    outs(%{init} : {self.type(to)}) {{
  ^bb0({arguments}, %to: f32):
    {body}
    linalg.yield %r : f32
  }} -> {self.type(to)}"""

    @property
    def text(self) -> str:
        """The function."""
        product = "%p = arith.mulf %x0, %x1 : f32\n    %r = arith.addf %to, %p : f32"
        every = "%r = arith.{} %x0, %x1 : f32"
        parts: list[str] = []
        for name, loops, number in (
            ("no.scores", "gqk", "zero"),
            ("least", "gq", "low"),
            ("none", "gq", "zero"),
            ("no.values", self.stored, "zero"),
        ):
            kind = self.type(loops)
            parts.append(f"""
  %{name}.e = tensor.empty() : {kind}
  %{name} = linalg.fill ins(%{number} : f32) outs(%{name}.e : {kind}) -> {kind}""")
        reads = {"q": self.operands["q"], "k": self.operands["k"]}
        parts.append(self._generic("s", reads, "gqk", "no.scores", product, "d"))
        scale = "%f = arith.constant 0.3 : f32\n    %r = arith.mulf %x0, %f : f32"
        parts.append(self._generic("t", {"s": "gqk"}, "gqk", "no.scores.e", scale))
        masked = "t"
        if self.mask:
            masked, reads = "u", {"t": "gqk", "m": self.operands["m"]}
            parts.append(self._generic("u", reads, "gqk", "no.scores.e", every.format("addf")))
        most, total = (f"%r = arith.{op} %to, %x0 : f32" for op in ("maximumf", "addf"))
        power = f"{every.format('subf').replace('%r', '%d')}\n    %r = math.exp %d : f32"
        parts += [
            self._generic("a", {masked: "gqk"}, "gq", "least", most, "k"),
            self._generic("b", {masked: "gqk", "a": "gq"}, "gqk", "no.scores.e", power),
            self._generic("c", {"b": "gqk"}, "gq", "none", total, "k"),
            self._generic("w", {"b": "gqk", "c": "gq"}, "gqk", "no.scores.e", every.format("divf")),
            self._generic("y", {"w": "gqk", "v": "gkc"}, self.stored, "no.values", product, "k"),
        ]
        inputs = ", ".join(f"%{name}: {self.type(loops)}" for name, loops in self.operands.items())
        result = self.type(self.stored)
        return f"""
func.func @main({inputs}) -> {result} {{
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32{"".join(parts)}
  return %y : {result}
}}"""

    def inputs(self) -> list[Any]:
        """Random ones; a mask of minus infinities leaves each query a key."""
        rng = np.random.default_rng(5)
        found = [rng.normal(size=self.shape(x)).astype(np.float32) for x in self.operands.values()]
        if self.mask == "causal":
            rows, columns = np.indices(self.shape("qk"))
            found[-1] = np.where(columns <= rows, 0, -np.inf).astype(np.float32)
        return found

    def expected(self) -> tuple[Any, float]:
        """The result in f64, and how far an f32 may be from it: each sum rounds once a term, and
        an error of a score is one of the whole row's weights."""
        q, k, v, *mask = (x.astype(np.float64) for x in self.inputs())
        product = f"gqd,{self.operands['k']}->gqk"
        scores, sizes = (0.3 * np.einsum(product, f(q), f(k)) for f in (np.array, np.abs))
        if mask:
            shape = [
                n if x in self.operands["m"] else 1
                for x, n in zip("gqk", scores.shape, strict=True)
            ]
            scores = scores + mask[0].reshape(shape)
            sizes = sizes + np.abs(np.where(np.isinf(mask[0]), 0, mask[0])).reshape(shape)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        result = np.einsum(f"gqk,gkc->{self.stored}", weights, v)
        terms = 2 * (self.size + 3) * sizes.max() + self.keys + 16
        return result, float(EPSILON * terms * np.abs(v).max())


WHERE = """%no = arith.constant 0xFF800000 : f32
    %zero.m = arith.constant 0.0 : f32
    %is.seen = arith.cmpf oge, %x1, %zero.m : f32
    %r = arith.select %is.seen, %x0, %no : f32"""


def chosen(case: Attention, kind: str) -> str:
    """The function with a mask that says which scores are some, by numbers or by bits."""
    text = case.text.replace("%r = arith.addf %x0, %x1 : f32", WHERE)
    if kind == "f32":
        return text
    head, tail = text.split("  %u = ")
    here, rest = tail.split("  %a = ")
    mask = case.type("qk")
    bits = mask.replace("f32", "i1")
    here = here.replace(mask, bits).replace("%x1: f32", "%x1: i1")
    here = here.replace(
        "%is.seen = arith.cmpf oge, %x1, %zero.m : f32\n    %r = arith.select %is.seen",
        "%r = arith.select %x1",
    )
    return "  %a = ".join(("  %u = ".join((head.replace(mask, bits), here)), rest))


def run(text: str, inputs: list[Any]) -> Any:
    """The result on this CPU, its memory poisoned before."""
    executable = Executable(HostProgram(read_program(lowered(text)), cpu=target("host")))
    (spec,) = executable.outputs
    out = poisoned(spec.shape, spec.dtype)
    executable(*inputs, out=[out])
    return out


def lowered(text: str) -> ModuleOp:
    module = read_module(text)
    for each in lowering_passes():
        each.apply(new_context(), module)
    return module


def kernels(module: ModuleOp) -> list[kernel.FuncOp]:
    return [op for op in module.walk() if isinstance(op, kernel.FuncOp)]


CASES = st.builds(
    Attention,
    groups=st.sampled_from([1, 2, 3]),
    queries=st.sampled_from([1, 2, 5, 17, 31, 97, 130]),
    keys=st.sampled_from([1, 2, 7, 15, 16, 17, 64, 65, 130, 200]),
    size=st.sampled_from([1, 3, 16, 17, 64]),
    columns=st.sampled_from([1, 5, 16, 33, 64, 80]),
    mask=st.sampled_from(["", "gqk", "qk", "gk", "k", "q", "causal"]),
    transposed=st.booleans(),
    stored=st.sampled_from(["gqc", "qgc"]),
)


@settings(max_examples=60, deadline=None)
@given(case=CASES, cpu=st.sampled_from(TARGETS), threads=st.integers(1, 2))
def test_softmax_between_two_products(case: Attention, cpu: str, threads: int):
    host = runnable(cpu)
    if host is None:
        return
    module = lowered(case.text)
    executable = Executable(HostProgram(read_program(module), cpu=host, threads=threads))
    (spec,) = executable.outputs
    out = poisoned(spec.shape, spec.dtype)
    executable(*case.inputs(), out=[out])
    result, tolerance = case.expected()
    np.testing.assert_allclose(out, result, rtol=0, atol=tolerance)


SQUARE = Attention(2, 40, 48, 16, 32)


@pytest.mark.parametrize(
    "case",
    [
        SQUARE,
        replace(SQUARE, mask="causal", queries=48),
        replace(SQUARE, mask="gqk", transposed=True),
        replace(SQUARE, mask="k"),
        replace(SQUARE, stored="qgc"),
        replace(SQUARE, keys=MOST_KEYS),
        replace(SQUARE, groups=1),
        replace(SQUARE, groups=1, transposed=True, mask="causal", queries=48),
    ],
    ids=[
        *("plain", "causal", "transposed", "mask-of-keys", "queries-first", "longest"),
        *("one-group", "one-group-transposed"),
    ],
)
def test_what_is_one_kernel(case: Attention):
    (only,) = kernels(lowered(case.text))
    assert config_of(only, HOST) == ATTENTION
    for cpu in TARGETS:
        assert not isinstance(read(KernelBody(only), target(cpu)), Refusal)


@pytest.mark.parametrize("kind", ["f32", "i1"])
@pytest.mark.parametrize("groups", [1, 3])
def test_masks_that_choose(groups: int, kind: str):
    case = replace(SQUARE, groups=groups, queries=48, mask="causal")
    text, inputs = chosen(case, kind), case.inputs()
    if kind == "i1":
        inputs[-1] = inputs[-1] == 0
    result, tolerance = case.expected()
    np.testing.assert_allclose(run(text, inputs), result, rtol=0, atol=tolerance)
    found = [config_of(each, HOST) for each in kernels(lowered(text))]
    assert (found == [ATTENTION]) == (kind == "f32")  # Bits are no numbers of a row.


@pytest.mark.parametrize("groups", [1, 3])
def test_queries_without_any_key_are_nan_alone(groups: int):
    case = replace(SQUARE, groups=groups, queries=48, mask="causal")
    inputs = case.inputs()
    inputs[-1][[0, 17, 47]] = -np.inf
    result, tolerance = case.expected()
    result[:, [0, 17, 47]] = np.nan
    np.testing.assert_allclose(run(case.text, inputs), result, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("loops", ["gqd", "gdk", "gkc"])
def test_products_of_narrow_numbers_are_kernels_of_their_own(loops: str, kind: str):
    case = replace(SQUARE, columns=20)
    narrow = case.type(loops)[:-4] + f"{kind}>"
    lines = case.text.replace(case.type(loops), narrow).split("\n")
    name = {"gqd": "%s = ", "gdk": "%s = ", "gkc": "%y = "}[loops]
    number = "x0" if loops == "gqd" else "x1"
    at = next(i for i, line in enumerate(lines) if name in line) + 3
    lines[at] = lines[at].replace(f"%{number}: f32", f"%{number}: {kind}")
    lines[at + 1] = lines[at + 1].replace(f"%{number}", "%wide")
    lines.insert(at + 1, f"    %wide = arith.extf %{number} : {kind} to f32")
    with collect() as found:
        made = kernels(lowered("\n".join(lines)))
    assert ATTENTION not in {config_of(each, HOST) for each in made}
    assert any("not of f32" in remark.message for remark in found)


def test_scores_are_no_memory_of_the_program():
    case = Attention(4, 512, 512, 64, 64)
    (only,) = kernels(lowered(case.text))
    assert workspace_bytes(KernelBody(only), ATTENTION, ()) < 4 * 512 * 512 * 4


def test_rows_that_stay_in_no_cache_are_kernels_of_their_own():
    found = kernels(lowered(replace(SQUARE, keys=MOST_KEYS + 1).text))
    assert ATTENTION not in {config_of(each, HOST) for each in found}
    assert len(found) == 3


@pytest.mark.parametrize("read_too", ["%s", "%t", "%w"])
def test_scores_that_something_else_reads_are_memory(read_too: str):
    case = SQUARE
    kind = case.type("gqk")
    text = case.text.replace(
        f"-> {case.type('gqc')} {{\n  %zero", f"-> ({case.type('gqc')}, {kind}) {{\n  %zero"
    )
    text = text.replace(
        f"return %y : {case.type('gqc')}", f"return %y, {read_too} : {case.type('gqc')}, {kind}"
    )
    found = kernels(lowered(text))
    assert ATTENTION not in {config_of(each, HOST) for each in found}
