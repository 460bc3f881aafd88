"""Columns of a product, added where taps meet: the products of a contraction."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

import pytest
from contraction_products import products_of
from contraction_readings import readings
from cuda_contractions import contraction_of_line
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.col2im.columns import Columns, as_product, columns_of
from convir.lowering.kernels.cuda.col2im.family import COL2IM, FAMILY
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.protocol import Problem
from convir.lowering.kernels.registry import legal_plans
from convir.lowering.kernels.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from contraction_products import Products

    from convir.lowering.bodies.contraction.spec import Contraction

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NCHW = NHWC.replace("NHWC", "NCHW")
VOLUME = (
    "conv --spatial_dim 3 -n 1 -c 2 --in_d 33 -H 33 -W 33 -k 729 --fil_d 2 -y 2 -x 2 -F 2 "
    "--in_layout NCDHW --fil_layout NCDHW --out_layout NCDHW"
)


def added(spec: Contraction, columns: Columns) -> Products:
    """The products behind each sum of the second launch."""
    of_column: dict[int, Products] = {}
    for (a, b, z), times in products_of(as_product(columns), {}).items():
        of_column.setdefault(z, Counter())[a, b, 0] += times
    found: Products = Counter()
    for phase in columns.contraction.phases:
        for position in product(*(range(axis.size) for axis in phase.axes)):
            out = phase.out_offset
            out += sum(x * axis.out_stride for x, axis in zip(position, phase.axes, strict=True))
            for taps in product(*(range(len(axis.tap_rows)) for axis in phase.axes)):
                rows = [
                    x * axis.step + axis.tap_rows[tap]
                    for x, tap, axis in zip(position, taps, phase.axes, strict=True)
                ]
                if not all(0 <= x < a.extent for x, a in zip(rows, phase.axes, strict=True)):
                    continue
                pixel = sum(x * a.out_stride for x, a in zip(rows, columns.axes, strict=True))
                weight = sum(a.tap_weights[tap] for tap, a in zip(taps, phase.axes, strict=True))
                for n in range(spec.out_channels):
                    at = weight + n * columns.contraction.b.out_channel_stride - columns.first
                    assert at % columns.step == 0
                    z = at // columns.step * columns.pixels + pixel
                    for (a, b, _), times in of_column[z].items():
                        found[a, b, out + n * spec.c.stride] += times
    return found


@st.composite
def lines(draw: st.DrawFn) -> str:
    """fprop and dgrad of few channels, strides and dilations."""
    size = [draw(st.integers(4, 7)) for _ in range(2)]
    taps = [draw(st.integers(1, 3)) for _ in range(2)]
    pads = [draw(st.integers(0, 3)) for _ in range(2)]
    strides = [draw(st.integers(1, 3)) for _ in range(2)]
    apart = [draw(st.integers(1, 2)) for _ in range(2)]
    few, many = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    direction = draw(st.sampled_from([1, 2]))
    c, k = (many, few) if direction == 1 else (few, many)
    assume(all((t - 1) * d < s + 2 * p for t, d, s, p in zip(taps, apart, size, pads, strict=True)))
    layout = draw(st.sampled_from([NHWC, NCHW]))
    return (
        f"conv -n 1 -c {c} -H {size[0]} -W {size[1]} -k {k} -y {taps[0]} -x {taps[1]} "
        f"-p {pads[0]} -q {pads[1]} -u {strides[0]} -v {strides[1]} -l {apart[0]} -j {apart[1]} "
        f"-F {direction} {layout}"
    )


@settings(deadline=None, max_examples=60)
@given(lines())
def test_columns_have_the_products_of_the_contraction(line: str) -> None:
    # Some are no kernel, as nothing is multiplied, or two.
    (found, *others) = readings(line)
    assume(not others and not isinstance(found, Refusal))
    assert not isinstance(found, Refusal)
    spec = found.contraction
    columns = columns_of(spec)
    assume(isinstance(columns, Columns) and not columns.copies)
    assert isinstance(columns, Columns)
    assert added(spec, columns) == products_of(spec, {})


def test_a_copy_of_b_brings_columns_together() -> None:
    spec = contraction_of_line(f"conv -n 1 -c 4 -H 5 -W 6 -k 3 -y 3 -x 2 -F 1 {NCHW}").contraction
    columns = columns_of(spec)
    assert isinstance(columns, Columns)
    (copy,) = columns.copies
    assert copy.operand == "b"
    assert columns.count == 3 * 6
    assert added(spec, columns) == products_of(columns.contraction, {})


def test_launches() -> None:
    problem = contraction_of_line(VOLUME)
    plans = legal_plans(problem, DEFAULT_TARGET)
    best, plan = plans[0]
    assert str(best.config).startswith(f"{FAMILY} sm80_implicit_gemm ")
    *_, last = plan.kernels
    assert last.symbol == "add_columns"
    assert last.arguments[1] == problem.place(Pointer("c"))
    assert plan.workspace[-1] == 16 * 32**3 * 4


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"conv -n 2 -c 64 -H 9 -W 9 -k 3 -y 3 -x 3 -F 4 {NHWC}", "gradient of the weights"),
        (f"conv -n 2 -c 64 -H 9 -W 9 -k 4 -y 3 -x 3 -g 2 -F 1 {NHWC}", "it has groups"),
        (f"conv -n 2 -c 64 -H 9 -W 9 -k 3 -y 1 -x 1 -F 1 {NHWC}", "it has no window"),
        (f"conv -n 2 -c 64 -H 9 -W 9 -k 9 -y 3 -x 3 -F 1 {NHWC}", "9 output channels are more"),
        (
            f"conv -n 2 -c 8 -H 64 -W 64 -k 64 -y 17 -x 17 -F 2 {NHWC}",
            "its 2312 taps and output channels lie among 2312 columns",
        ),
        (
            f"conv -n 64 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 2 {NHWC}",
            "its columns are 450 MiB",
        ),
    ],
)
def test_refusals(line: str, reason: str) -> None:
    found = contraction_of_line(line)
    refused = COL2IM.candidates(Problem(found.contraction, found.epilogue), DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


@pytest.mark.parametrize("text", ["col2im", "col2im gemm", "sm80_implicit_gemm 64x64x32"])
def test_what_is_no_config(text: str) -> None:
    with pytest.raises(ValueError, match="a config of sm80_implicit_gemm follows"):
        COL2IM.parse(text)
