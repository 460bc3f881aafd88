"""Choices within a template that are made after selection: partition and warp roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from convir.dialects import kernel, rt
from convir.dialects.refusal import Refusal
from convir.lowering.implementations import CUDA, LOOPS
from convir.lowering.outline_kernels import outlined
from convir.passes import remarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.kernels.cuda.config import KernelConfig
    from convir.lowering.kernels.protocol import KernelFamily
    from convir.lowering.kernels.target import Target

Kernel: TypeAlias = "kernel.RegionOp | kernel.FuncOp"
Change: TypeAlias = "Callable[[KernelFamily, KernelConfig], KernelConfig | Refusal]"
"""A config with another choice, or why its template has none; ValueError if there is no such."""


def change_configs(module: ModuleOp, pass_name: str, change: Change, gpu: Target) -> None:
    """Change the cuda config of every kernel of `module` whose template allows it on `gpu`.

    What is changed and what is not, and why, are remarks of `pass_name`.
    """
    launched = {op.callee.root_reference for op in module.walk() if isinstance(op, rt.LaunchOp)}
    for op in list(module.walk()):
        if not isinstance(op, kernel.RegionOp | kernel.FuncOp):
            continue
        if isinstance(op, kernel.FuncOp) and op.sym_name in launched:
            changed = Refusal("its launches have their memory already")
        else:
            changed = _changed(op, change, gpu)
        if isinstance(changed, Refusal):
            remarks.refused(pass_name, op, changed.reason)
            continue
        known = dict(op.configs.data) if op.configs is not None else {}
        op.configs = DictionaryAttr({**known, CUDA: StringAttr(changed)})
        remarks.fired(pass_name, op, changed)


def _changed(op: Kernel, change: Change, gpu: Target) -> str | Refusal:
    """The text of the config that stands for `op` from now on."""
    # The host needs none of the templates.
    from convir.lowering.kernels.registry import (  # noqa: PLC0415
        family_of,
        plan_kernel,
    )

    text = op.configs.data.get(CUDA) if op.configs is not None else None
    config = text.data if isinstance(text, StringAttr) else LOOPS
    family = family_of(config)
    if family is None:
        return Refusal(f"'{config}' is no template's config")
    try:
        changed = change(family, family.parse(config))
    except ValueError as error:
        return Refusal(str(error))
    if isinstance(changed, Refusal):
        return changed
    callee = op if isinstance(op, kernel.FuncOp) else outlined(op, "candidate")[0]
    plan = plan_kernel(callee, str(changed), gpu)
    return plan if isinstance(plan, Refusal) else str(changed)
