"""`inline`: a call becomes the body of the function that it calls.

    rewrite: %y = func.call @f(%x)  -->  the ops of @f on %x; %y is what @f returns

Callees are inlined first, so that each call is replaced once. A private function that nothing names
any more goes with its last call.

Preconditions: the function has a body of one block and does not call itself, directly or through
others; the caller has no more than `MAX_OPS` ops afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.refusal import Refusal
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

MAX_OPS: Final = 1 << 20
"""The most ops that the calls of one function may stand for."""


@dataclass
class _Inliner:
    """Inlines the calls of one module, callees first."""

    functions: dict[str, func.FuncOp]
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """How many ops the functions have whose calls are inlined."""
    recursive: dict[str, Refusal] = field(default_factory=dict[str, Refusal])
    """Functions that call themselves, and through which others."""
    refused: dict[func.CallOp, Refusal] = field(default_factory=dict[func.CallOp, Refusal])
    inlined: set[str] = field(default_factory=set[str])
    """Functions whose bodies stand in the place of calls."""

    def inline(self, name: str) -> None:
        """Inline every call in the function `name`, and in what it calls."""
        path = [name]
        while path:
            calls = _calls(self.functions[path[-1]])
            self.refused |= {call: why for call in calls if (why := self._refusal(call, path))}
            calls = [call for call in calls if call not in self.refused]
            waiting = next((call for call in calls if _callee(call) not in self.sizes), None)
            if waiting is None:
                self._inline_into(path.pop(), calls)
            else:
                path.append(_callee(waiting))

    def _refusal(self, call: func.CallOp, path: list[str]) -> Refusal | None:
        """Why `call`, in the last of the functions that call each other, is not inlined."""
        name = _callee(call)
        callee = self.functions.get(name)
        if callee is None or callee.is_declaration:
            return Refusal(f"@{name} has no body")
        if len(callee.body.blocks) != 1:
            return Refusal(f"@{name} has {len(callee.body.blocks)} blocks, not one")
        if name in path:
            cycle = path[path.index(name) :]
            through = "".join(f" through @{other}" for other in cycle[1:])
            refusal = Refusal(f"@{name} calls itself{through}")
            self.recursive = {**dict.fromkeys(cycle, refusal), **self.recursive}
        return self.recursive.get(name)

    def _inline_into(self, name: str, calls: list[func.CallOp]) -> None:
        function = self.functions[name]
        size = sum(1 for _ in function.walk())
        for call in calls:
            callee = _callee(call)
            if size + self.sizes[callee] > MAX_OPS:
                self.refused[call] = Refusal(f"@{name} would have more than {MAX_OPS} ops")
                continue
            size += self.sizes[callee]
            self.inlined.add(callee)
            remarks.fired(InlinePass.name, call, f"the body of @{callee} stands in its place")
            _replace(call, self.functions[callee])
        self.sizes[name] = size


def inline_calls(module: ModuleOp) -> dict[func.CallOp, Refusal]:
    """Inline the calls of every function of `module`; those that stay, and why."""
    functions = {one.sym_name.data: one for one in module.ops if isinstance(one, func.FuncOp)}
    inliner = _Inliner(functions)
    for name, function in functions.items():
        if not function.is_declaration and name not in inliner.sizes:
            inliner.inline(name)
    named = {
        symbol.root_reference.data
        for op in module.walk()
        for symbol in (*op.properties.values(), *op.attributes.values())
        if isinstance(symbol, SymbolRefAttr)
    }
    for name in inliner.inlined - named:
        if functions[name].sym_visibility == StringAttr("private"):
            Rewriter.erase_op(functions[name])
    return inliner.refused


def _callee(call: func.CallOp) -> str:
    return call.callee.string_value()


def _calls(function: func.FuncOp) -> list[func.CallOp]:
    return [op for op in function.walk() if isinstance(op, func.CallOp)]


def _replace(call: func.CallOp, callee: func.FuncOp) -> None:
    block = callee.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, call.arguments, strict=True))
    returned = block.last_op
    copies = [op.clone(values) for op in block.ops if op is not returned]
    Rewriter.insert_op(copies, InsertPoint.before(call))
    results = [] if returned is None else [values.get(v, v) for v in returned.operands]
    for old, new in zip(call.results, results, strict=True):
        new.name_hint = new.name_hint or old.name_hint
    Rewriter.replace_op(call, [], results)


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """Replaces calls by the bodies of what they call."""

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Inline the calls of every function."""
        for call, refusal in inline_calls(op).items():
            remarks.refused(self.name, call, refusal.reason)
