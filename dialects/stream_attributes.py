"""What a function says about itself when it is called with one block after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

STATES_ATTR = "convir.states"
"""How many of a function's last arguments are what its last results were in the call before: i64.

A caller may lend one memory for both: the function then updates it in place."""

RATE_ATTR = "convir.sample_rate"
"""Frames a second: f64."""


def states_of(function: FuncOp) -> int:
    """How many arguments of `function` are states; 0 where it says nothing."""
    states = function.attributes.get(STATES_ATTR)
    return states.value.data if isinstance(states, IntegerAttr) else 0


def sample_rate_of(function: FuncOp) -> float | None:
    """Frames a second, if `function` says so."""
    rate = function.attributes.get(RATE_ATTR)
    return rate.value.data if isinstance(rate, FloatAttr) else None


def is_state(value: SSAValue) -> bool:
    """Whether `value` is a state before the call: its layout is the caller's, in every call."""
    if not isinstance(value, BlockArgument):
        return False
    function = value.owner.parent_op()
    return isinstance(function, FuncOp) and value.index >= (
        len(value.owner.args) - states_of(function)
    )
