"""What every pass keeps, on random functions and on all lit inputs.

Results (equal bits where they are exact), validity, printing that reads back as the same, and a
second run that changes nothing and says that nothing fired. `tests/fuzz.py` runs the same on as
many functions as one likes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fuzzing.campaign import Campaign
from fuzzing.case import COMPILED, LOWERING
from fuzzing.properties import apply_all, check_printing, check_repeated
from fuzzing.verdicts import Tally

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.lowering.selection.assign_warp_roles import AssignWarpRolesPass
from convir.lowering.selection.partition_reduction import PartitionReductionPass
from convir.passes.manager.fixpoint import are_the_same, parts_of
from convir.passes.manager.registry import CONVIR_PASSES, LOWERING_PASSES, load_pass
from convir.passes.manager.remarks import collect
from convir.passes.pipelines import PIPELINES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

LIT = Path(__file__).resolve().parents[2] / "lit"
SEED = 1
COUNTS = {LOWERING: 25, COMPILED: 10, "default": 30, "backward-data": 30}
"""Random functions by what is done with them; `COUNT` of any other."""
COUNT = 20

NEEDS_OPTIONS = {
    "assign-warp-roles": AssignWarpRolesPass(1, 2),
    "partition-reduction": PartitionReductionPass("split-k"),
}


@pytest.mark.parametrize("name", [*CONVIR_PASSES, *PIPELINES, LOWERING, COMPILED])
def test_random_functions(name: str) -> None:
    tally = Campaign(SEED, COUNTS.get(name, COUNT), names=(name,)).run()
    assert not tally.findings, "\n\n".join(
        f"{one.failed} in case {one.case}:\n{one.what}\nafter {one.passes}:\n{one.text}"
        for one in tally.findings
    )
    assert sum(tally.runs.values()) >= tally.functions


def test_the_random_functions_are_not_vacuous() -> None:
    tally = Tally()
    campaign, ctx = Campaign(SEED, 0), new_context()
    for case in range(60):
        campaign.run_case(case, tally, ctx)
    assert len(tally.changed) > len(CONVIR_PASSES)
    assert tally.unchecked * 3 < tally.functions


@cache
def lit_inputs() -> tuple[ModuleOp, ...]:
    """The valid modules of all lit files, cut at `// -----`."""
    ctx, modules = new_context(), list["ModuleOp"]()
    for file in sorted(LIT.rglob("*.mlir")):
        if "Output" in file.parts:
            continue
        for number, text in enumerate(file.read_text().split("// -----")):
            try:
                modules.append(read_module(text, f"{file.name}#{number}", ctx))
            except DiagnosticError:
                continue
    return tuple(modules)


def passes_called(name: str) -> tuple[ModulePass, ...]:
    if name in PIPELINES:
        return PIPELINES[name]
    return (NEEDS_OPTIONS[name] if name in NEEDS_OPTIONS else load_pass(name)(),)


@pytest.mark.parametrize("name", [*CONVIR_PASSES, *LOWERING_PASSES, *PIPELINES])
def test_a_second_run_changes_nothing_on_lit_inputs(name: str) -> None:
    ctx, passes = new_context(), passes_called(name)
    for before in lit_inputs():
        module = before.clone()
        parts = parts_of(module)
        with collect() as remarks:
            applied = apply_all(ctx, module, passes)
        if are_the_same(parts, parts_of(module)):  # so that a second run sees what the first saw
            assert not any(remark.fired for remark in remarks), remarks
        elif applied:
            check_repeated(ctx, module, passes, name)


@pytest.mark.parametrize("generic", [False, True])
def test_lit_inputs_print_and_read_as_the_same(generic: bool) -> None:
    ctx = new_context()
    for module in lit_inputs():
        check_printing(ctx, module, str(module.location), generic=generic)
