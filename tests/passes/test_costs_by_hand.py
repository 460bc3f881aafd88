"""What passes compute from the rates of a machine, against sums that are done by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i8

from convir.dialects.nearest import did_you_mean
from convir.passes import run
from convir.passes.convert_strided_insert_slice_to_generic.costs import (
    Traffic,
    copy_us,
    one_pass_us,
)
from convir.passes.decompose_strided_dgrad.costs import Product, pass_us, products_us
from convir.passes.decompose_strided_dgrad.pass_ import DecomposeStridedDgradPass
from convir.passes.machine_costs import ASSUMED, MachineCosts

if TYPE_CHECKING:
    from xdsl.ir import Attribute

pytestmark = pytest.mark.fast

COSTS = replace(
    ASSUMED,
    launch_us=1000.0,
    phase_us=5000.0,
    matrix_flops_per_us=100.0,
    wide_flops_per_us=10.0,
    fill_bytes_per_us=4.0,
    copy_bytes_per_us=2.0,
    row_tile=4,
    column_tile=4,
    sector_bytes=32,
    partial_sector_factor=3.0,
    vector_bytes=16,
    store_us=5.0,
    shift_us=3.0,
    division_us=7.0,
)


@pytest.mark.parametrize(
    ("element", "rate"), [(f16, 100), (bf16, 100), (i8, 100), (f32, 10), (f64, 10)]
)
def test_products_in_whole_tiles(element: Attribute, rate: float) -> None:
    whole, ragged = Product(8, 4, 3, 2), Product(5, 1, 1)
    first, second = 2 * 8 * 4 * 3 * 2, 2 * 8 * 4
    assert products_us(COSTS, [whole], element) == 1000 + first / rate
    assert products_us(COSTS, [whole, ragged], element) == 6000 + (first + second) / rate


def test_a_pass_over_memory() -> None:
    assert pass_us(COSTS, 600) == 1300


SCATTER = Traffic(
    result_bytes=4096,
    source_bytes=1024,
    run_bytes=64,
    pitch_bytes=128,
    shifted_dims=1,
    divided_dims=2,
    filled=True,
    stored_by_producer=False,
)


@pytest.mark.parametrize(
    ("traffic", "separate", "at_once"),
    [
        # A fill, then 1 kB read and written; one pass is arithmetic for 256 vectors.
        (SCATTER, 2000 + 1024 + 1024, 1000 + 256 * (3 + 14)),
        # What lies there is kept: no fill, and one pass reads it too.
        (replace(SCATTER, filled=False, divided_dims=0), 1000 + 1024, 1000 + (1024 + 8192) / 2),
        # Runs of half a sector: each writes one sector, three times.
        (replace(SCATTER, run_bytes=16), 2000 + 1024 + (1024 + 64 * 32 * 3) / 2, 1000 + 256 * 17),
        # Runs beside each other share sectors.
        (
            replace(SCATTER, run_bytes=16, pitch_bytes=20),
            *(2000 + 1024 + (1024 + 64 * 20 * 3) / 2, 1000 + 256 * 17),
        ),
        # Single bytes: as many stores.
        (
            replace(SCATTER, run_bytes=1, pitch_bytes=1),
            *(2000 + 1024 + 1024 * 5, 1000 + 4096 * 17),
        ),
        (replace(SCATTER, run_bytes=32), 2000 + 1024 + 1024, 1000 + 256 * 17),
        (replace(SCATTER, stored_by_producer=True), 3072 / 2, 1000 + 256 * 17),
        (replace(SCATTER, stored_by_producer=True, filled=False), 0, 1000 + (1024 + 8192) / 2),
        (replace(SCATTER, shifted_dims=0, divided_dims=0), 4048, 1000 + 5120 / 2),
    ],
)
def test_scatters(traffic: Traffic, separate: float, at_once: float) -> None:
    assert copy_us(COSTS, traffic) == separate
    assert one_pass_us(COSTS, traffic) == at_once


STRIDED = """
func.func @f(%x: tensor<3x5x8xE>, %w: tensor<6xTAPSx8xE>) -> tensor<3xOUTx6xE> {
  %zeros = arith.constant dense<0.0> : tensor<3x11x8xE>
  %init = arith.constant dense<0.0> : tensor<3xOUTx6xE>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [3, 5, 8] [1, 2, 1]
      : tensor<3x5x8xE> into tensor<3x11x8xE>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, f, r, c) -> (n, h + r, c)>,
      affine_map<(n, h, f, r, c) -> (f, r, c)>, affine_map<(n, h, f, r, c) -> (n, h, f)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%s, %w : tensor<3x11x8xE>, tensor<6xTAPSx8xE>) outs(%init : tensor<3xOUTx6xE>) {
  ^bb0(%a: E, %b: E, %acc: E):
    %0 = arith.mulf %a, %b : E
    %1 = arith.addf %acc, %0 : E
    linalg.yield %1 : E
  } -> tensor<3xOUTx6xE>
  return %r : tensor<3xOUTx6xE>
}
"""


def strided(taps: int, element: str = "f32") -> str:
    text = STRIDED.replace("TAPS", str(taps)).replace("OUT", str(12 - taps))
    return text.replace("xE", f"x{element}").replace(": E", f": {element}")


def reason(text: str, costs: MachineCosts) -> str:
    """The one remark of the pass."""
    (remark,) = run(text, (DecomposeStridedDgradPass(costs=str(costs)),)).remarks
    return remark.reason


def test_phases_against_holes() -> None:
    """Phases of 5 rows and 1 tap, and of 4 rows and 2 taps, of 3 images; 6 columns are 8."""
    phases = 1000 + 5000 + (2 * 16 * 8 * 8 + 2 * 12 * 8 * 16) / 10
    holes = 1000 + 3 * 11 * 8 * 4 / 2 + 1000 + 2 * 28 * 8 * 24 / 10
    expected = f"its 2 phases take {phases:.1f} us, the scatter and its holes {holes:.1f} us"
    assert reason(strided(3), COSTS) == expected
    between = replace(COSTS, phase_us=5000 - (phases - holes) - 1)
    assert "2 phases of 1 to 2 taps" in reason(strided(3), between)
    assert "not" not in reason(strided(3), between)
    beyond = replace(COSTS, phase_us=5000 - (phases - holes) + 1)
    assert reason(strided(3), beyond).startswith("its 2 phases take")


def test_as_many_microseconds_leave_the_holes() -> None:
    exact = replace(COSTS, wide_flops_per_us=16.0)
    phases = 1000 + (2 * 16 * 8 * 8 + 2 * 12 * 8 * 16) / 16
    holes = 2000 + 3 * 11 * 8 * 4 / 2 + 2 * 28 * 8 * 24 / 16
    tie = replace(exact, phase_us=holes - phases)
    assert reason(strided(3), tie).startswith("its 2 phases take")
    assert "2 phases of 1 to 2 taps" in reason(strided(3), replace(tie, phase_us=tie.phase_us - 1))


def test_elements_of_sixteen_bits_are_half_the_bytes_and_quick_products() -> None:
    phases = 1000 + 5000 + (2 * 16 * 8 * 8 + 2 * 12 * 8 * 16) / 100
    holes = 1000 + 3 * 11 * 8 * 2 / 2 + 1000 + 2 * 28 * 8 * 24 / 100
    expected = f"its 2 phases take {phases:.1f} us, the scatter and its holes {holes:.1f} us"
    assert reason(strided(3, "f16"), COSTS) == expected


def test_a_shuffle_against_holes() -> None:
    """As many taps as the stride: one product with 2 · 6 columns, whose result is read once."""
    costs = replace(COSTS, copy_bytes_per_us=0.5)
    shuffle = 1000 + 2 * 16 * 12 * 8 / 10 + 1000 + 2 * 3 * 10 * 6 * 4 / 0.5
    holes = 1000 + 3 * 11 * 8 * 4 / 0.5 + 1000 + 2 * 32 * 8 * 16 / 10
    expected = f"its 2 phases take {shuffle:.1f} us, the scatter and its holes {holes:.1f} us"
    assert reason(strided(2), costs) == expected
    assert "then a shuffle" in reason(strided(2), COSTS)
    quick = replace(COSTS, phase_us=1.0)
    assert "2 phases of 1 tap" in reason(strided(2), quick)


def test_costs_print_and_parse() -> None:
    assert MachineCosts.parse(str(COSTS)) == COSTS
    assert MachineCosts.parse(str(ASSUMED)) == ASSUMED
    values = {name: getattr(COSTS, name) for name in ("launch_us", "phase_us")}
    for wrong in (values, {**vars(COSTS), "no_such": 1.0}, {**vars(COSTS), "lanes": 0.0}):
        with pytest.raises(ValueError, match=r"^costs are positive numbers: launch_us, phase_us"):
            MachineCosts.of(wrong)
    assert MachineCosts.of({**vars(COSTS), "reads_images": 0.0}).reads_images == 0
    assert COSTS.packs
    assert not replace(COSTS, in_place_rows=float("inf")).packs


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("canonicalise", ["cse", "canonicalize"], "; did you mean 'canonicalize'?"),
        (
            "fold",
            ["dce", "fold-constants", "fold-nothing-at-all"],
            "; did you mean 'fold-constants'?",
        ),
        ("xyz", ["dce"], ""),
        ("", ["dce"], ""),
        ("dcee", ["dcex", "dce"], "; did you mean 'dce'?"),
    ],
)
def test_the_nearest_name(name: str, known: list[str], said: str) -> None:
    assert did_you_mean(name, known) == said
