"""What a pass over rows leaves for later ones in the memory of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.bodies.rows.program import Load, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.rows.program import RowProgram, Store

_CHEAP = ("math.absf", "math.sqrt", "math.floor", "math.ceil", "math.fma")


def kept_by(
    program: RowProgram, number: int, elements: Sequence[int], known: dict[int, Store]
) -> dict[int, Store]:
    """Functions among the `elements` of a pass that a later pass reads again, each with a result
    that it can wait in; `known` wait there already."""
    later = {
        i
        for each in range(number + 1, program.passes + 1)
        for i in program.elements_of(each, frozenset(known))
    }
    last = program.stores_of(program.passes)
    free = [s for s in last if s.target.type == program.element and number < program.passes]
    free = [store for store in free if store not in known.values()]
    found: dict[int, Store] = {}
    for i in elements:
        node = program.nodes[i]
        if i in later and i not in known and isinstance(node, Step) and free:
            name = node.op.kind.name
            if name.startswith("math.") and name not in _CHEAP:
                found[i] = free.pop()
    return found


def overwrites(program: RowProgram, source: int) -> bool:
    """Whether an argument would be read after a result was written over it, element by element."""
    known: dict[int, Store] = {}
    is_written = False
    for number in range(1, program.passes + 1):
        elements = program.elements_of(number, frozenset(known))
        nodes = [program.nodes[i] for i in elements if i not in known]
        if is_written and any(isinstance(n, Load) and n.source.index == source for n in nodes):
            return True
        known.update(kept_by(program, number, elements, known))
        is_written = bool(known or program.stores_of(number)) or is_written
    return False
