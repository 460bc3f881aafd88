"""Every pass on functions of thousands of operations in a row: none may recurse along them.

Nothing is timed: what took the square, or doubled with each level, does not come to an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import deep_programs
import numpy as np
import pytest

from convir.analysis.rearrangement import rearrangement
from convir.cli.files.module_text import module_text
from convir.dialects.context import new_context, read_module
from convir.passes.manager.pass_manager import apply_passes, run
from convir.passes.manager.registry import CONVIR_PASSES, load_pass
from convir.passes.pipelines import DEFAULT
from convir.reference import evaluate, find_function
from convir.runtime.bench import program_shapes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute

OPS = {"chain": 4000}
MOST_OPS = 1200
"""Past 1000, which is as deep as Python recurses, for the kinds that `OPS` does not name."""
LEVELS = 1100
WIDE_LEVELS = {"concatenation": 250, "separated_convolutions": 120}
"""Levels of what has several ops each, in which nothing follows all levels but to find one."""
DIAMONDS = 40
"""Levels of diamonds; 2 to their number is what no loop comes to the end of."""
NEED_SIZES = {"bind-sizes"}
"""Passes that want an option."""

SHAPES = {name: make(OPS.get(name, MOST_OPS)) for name, make in program_shapes.KINDS.items()}
DEEP = {name: make(WIDE_LEVELS.get(name, LEVELS)) for name, make in deep_programs.KINDS.items()}
DIAMOND = {
    f"{name}-{DIAMONDS}": program_shapes.KINDS[name](DIAMONDS * ops)
    for name, ops in (("pad-diamond", 5), ("slice-diamond", 3))
}
PROGRAMS = {**SHAPES, **DEEP, **DIAMOND}
PASSES = sorted({*CONVIR_PASSES} - NEED_SIZES)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_pass_comes_to_an_end(program: str) -> None:
    module = read_module(PROGRAMS[program], program)
    for name in PASSES:
        apply_passes(new_context(), module.clone(), [load_pass(name)()])


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_default_pipeline_keeps_what_is_computed(program: str) -> None:
    module = read_module(PROGRAMS[program], program)
    done = run(PROGRAMS[program], DEFAULT).module
    text = module_text(done, new_context())
    assert module_text(read_module(text, program), new_context()) == text
    types = find_function(module, "main").function_type.inputs
    if "?" in ", ".join(map(str, types)):
        return  # what is computed depends on sizes that nothing here knows
    rng = np.random.default_rng(0)
    shapes = [cast("TensorType[Attribute]", declared).get_shape() for declared in types]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = evaluate(module, "main", arrays)
    for result, array in zip(evaluate(done, "main", arrays), expected, strict=True):
        np.testing.assert_allclose(result, array, rtol=1e-5, atol=1e-5)


def test_sizes_are_bound_in_a_long_chain() -> None:
    done = run(deep_programs.sizes(LEVELS), 'bind-sizes{sizes="4x4","scalar"}')
    assert "?" not in module_text(done.module, new_context())


def test_a_constant_chain_is_stored_link_by_link() -> None:
    remarks = run(deep_programs.constants(LEVELS), "fold-constants").remarks
    assert {remark.reason for remark in remarks} == {"8 bytes instead of 1 ops at every run"}


def test_doubled_indices_are_no_rearrangement() -> None:
    """Coefficients of 2**depth are numbers of so many bits; 62 levels still fit an index."""
    for depth, fits in ((40, True), (LEVELS, False)):
        module = read_module(deep_programs.doubled_index(depth), "doubled")
        (generic,) = (op for op in module.walk() if op.name == "linalg.generic")
        assert (rearrangement(generic) is not None) is fits
