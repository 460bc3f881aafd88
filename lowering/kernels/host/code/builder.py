"""A small builder of LLVM assembly: typed values, folded constants, loops with carried values.

    function = Function("add", (("ptr", "a"), ("i64", "n")))
    with function.loop("i", 0, function.argument("n")) as loop:
        function.store(zero, function.element(function.argument("a"), loop.index, 4))
    text = function.text()

Integers stand for `i64` constants, and arithmetic on constants is folded, so that the emitted
code reads as a person would have written it.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

I1 = "i1"
I64 = "i64"
PTR = "ptr"

POINTER_BYTES = 8

LINE_BYTES = 64
"""A line of the caches. Memory of a kernel's own begins at one, and stores around the caches write
whole ones."""


class Value(NamedTuple):
    """An SSA value or a constant."""

    type: str
    """Its LLVM type."""
    text: str
    """How an operand is written, without the type."""

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


Operand: TypeAlias = Value | int
"""A value, or an `i64` constant."""


def value(operand: Operand) -> Value:
    """`operand` as a value."""
    return operand if isinstance(operand, Value) else Value(I64, str(operand))


def vector(element: str, lanes: int) -> str:
    """The type of a vector of `lanes` elements."""
    return f"<{lanes} x {element}>"


def zero(type_: str) -> Value:
    """The zero of any type."""
    return Value(type_, "zeroinitializer")


def mask(lanes: int, active: int) -> Value:
    """A constant vector of booleans, true in the first `active` lanes."""
    bits = ", ".join(f"i1 {'true' if lane < active else 'false'}" for lane in range(lanes))
    return Value(vector(I1, lanes), f"<{bits}>")


def integers(values: Sequence[int]) -> Value:
    """A constant vector of i64."""
    return Value(vector(I64, len(values)), f"<{', '.join(f'i64 {v}' for v in values)}>")


def float_constant(number: float, like: str) -> Value:
    """`number`, which the element type of `like` holds exactly, in every lane of that type."""
    # LLVM writes a float as the bits of the double that equals it.
    text = f"0x{int.from_bytes(struct.pack('>d', number), 'big'):016X}"
    if not like.startswith("<"):
        return Value(like, text)
    _, element = like[1:-1].split(" x ")
    return Value(like, f"splat ({element} {text})")


@dataclass
class Loop:
    """A loop that is being built."""

    index: Value
    """The induction variable."""
    carried: tuple[Value, ...]
    """The values at the start of an iteration."""
    results: tuple[Value, ...] = ()
    """After the loop: the values it ends with."""
    _next: tuple[Value, ...] = ()

    def carry(self, *values: Value) -> None:
        """Set the values that the next iteration starts with."""
        self._next = values

    @property
    def next_values(self) -> tuple[Value, ...]:
        """What `carry` set."""
        return self._next


@dataclass
class Function:
    """The body of one function, in the order in which it is emitted."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    """(type, name) of each parameter; attributes may follow the type."""
    external: bool = False
    """Whether it is called from outside the module."""
    result: Value | None = None
    """What it returns; None until that is known, and for a function that returns nothing."""
    attributes: str = ""
    """Of the function, each after a space."""
    _lines: list[str] = field(default_factory=list[str], init=False)
    _names: dict[str, int] = field(default_factory=dict[str, int], init=False)
    _block: str = field(default="entry", init=False)
    _intrinsics: set[str] = field(default_factory=set[str], init=False)

    def __post_init__(self) -> None:
        for _, parameter in self.parameters:
            self._fresh(parameter)

    def argument(self, name: str) -> Value:
        """The parameter called `name`."""
        type_ = next(type_ for type_, parameter in self.parameters if parameter == name)
        return Value(type_.split()[0], f"%{name}")

    def text(self) -> str:
        """The function as LLVM assembly."""
        parameters = ", ".join(f"{type_} %{name}" for type_, name in self.parameters)
        linkage = "" if self.external else "internal "
        body = "\n".join(self._lines)
        kind, result = (self.result.type, str(self.result)) if self.result else ("void", "void")
        head = f"define {linkage}{kind} @{self.name}({parameters}){self.attributes}"
        return f"{head} {{\nentry:\n{body}\n  ret {result}\n}}\n"

    @property
    def intrinsics(self) -> frozenset[str]:
        """The declarations that this function needs."""
        return frozenset(self._intrinsics)

    # Instructions.

    def emit(self, type_: str, hint: str, instruction: str) -> Value:
        """Append `%hint = instruction`; the result has type `type_`."""
        name = self._fresh(hint)
        self._lines.append(f"  %{name} = {instruction}")
        return Value(type_, f"%{name}")

    def add(self, left: Operand, right: Operand, hint: str = "sum") -> Value:
        """Integer sum."""
        if isinstance(left, int) and isinstance(right, int):
            return value(left + right)
        if is_zero(right):
            return value(left)
        if is_zero(left):
            return value(right)
        return self._binary("add", left, right, hint)

    def sub(self, left: Operand, right: Operand, hint: str = "difference") -> Value:
        """Integer difference."""
        return value(left) if is_zero(right) else self._binary("sub", left, right, hint)

    def mul(self, left: Operand, right: Operand, hint: str = "product") -> Value:
        """Integer product."""
        if is_zero(left) or is_zero(right):
            return value(0)
        if _is(right, "1"):
            return value(left)
        if _is(left, "1"):
            return value(right)
        return self._binary("mul nsw", left, right, hint)

    def div(self, left: Operand, right: Operand, hint: str = "quotient") -> Value:
        """Quotient of integers that are not negative."""
        return value(left) if _is(right, "1") else self._binary("udiv", left, right, hint)

    def rem(self, left: Operand, right: Operand, hint: str = "remainder") -> Value:
        """Remainder of integers that are not negative."""
        return value(0) if _is(right, "1") else self._binary("urem", left, right, hint)

    def minimum(self, left: Operand, right: Operand, hint: str = "least") -> Value:
        """The smaller of two signed integers."""
        return self.select(self.compare("slt", left, right), left, right, hint)

    def maximum(self, left: Operand, right: Operand, hint: str = "most") -> Value:
        """The larger of two signed integers."""
        return self.select(self.compare("sgt", left, right), left, right, hint)

    def compare(self, predicate: str, left: Operand, right: Operand) -> Value:
        """Compare integers, or vectors of them."""
        left, right = value(left), value(right)
        result = left.type.replace(I64, I1) if left.type.startswith("<") else I1
        return self.emit(result, predicate, f"icmp {predicate} {left}, {right.text}")

    def select(self, condition: Value, left: Operand, right: Operand, hint: str) -> Value:
        """`left` where `condition` holds, else `right`."""
        left, right = value(left), value(right)
        return self.emit(left.type, hint, f"select {condition}, {left}, {right}")

    def element(self, base: Value, index: Operand, size: int, hint: str = "at") -> Value:
        """The address `index` elements of `size` bytes after `base`."""
        return self.offset(base, self.mul(index, size, "bytes"), hint)

    def offset(self, base: Value, offset: Operand, hint: str = "at") -> Value:
        """The address `offset` bytes after `base`."""
        if is_zero(offset):
            return base
        return self.emit(PTR, hint, f"getelementptr i8, {base}, {value(offset)}")

    def load(self, type_: str, address: Value, align: int, hint: str = "load") -> Value:
        """Load a `type_` from an address that is a multiple of `align` bytes."""
        return self.emit(type_, hint, f"load {type_}, {address}, align {align}")

    def store(self, stored: Operand, address: Value, align: int) -> None:
        """Store at an address that is a multiple of `align` bytes."""
        self._lines.append(f"  store {value(stored)}, {address}, align {align}")

    def stream(self, stored: Operand, address: Value, align: int) -> None:
        """Store a whole aligned vector around the caches; `fence` makes it visible to others."""
        self._intrinsics.add("!0 = !{i32 1}")
        self._lines.append(f"  store {value(stored)}, {address}, align {align}, !nontemporal !0")

    def prefetch(self, address: Value, level: int = 1, *, writes: bool = False) -> None:
        """Ask for the cache line at `address`, which need not exist; it will be read, or written.

        `level` is the cache that it shall come to, 1 to 3.
        """
        declaration = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        numbers = (int(writes), 4 - level, 1)
        self.intrinsic_effect(declaration, (address, *(Value("i32", str(n)) for n in numbers)))

    def fence(self) -> None:
        """Order all stores before with all that follows."""
        self._lines.append("  fence seq_cst")

    def splat(self, scalar: Operand, lanes: int, hint: str = "splat") -> Value:
        """A vector with `simt_direct` in every lane."""
        scalar = value(scalar)
        type_ = vector(scalar.type, lanes)
        head = self.emit(type_, hint, f"insertelement {type_} poison, {scalar}, i64 0")
        return self.shuffle(head, head, (0,) * lanes, hint)

    def shuffle(self, left: Value, right: Value, lanes: Sequence[int], hint: str) -> Value:
        """Pick lanes of `left` followed by `right`."""
        element = left.type.split(" x ")[1].removesuffix(">")
        numbers = ", ".join(f"i32 {lane}" for lane in lanes)
        picked = f"<{numbers}>" if any(lanes) else "zeroinitializer"
        kind = vector("i32", len(lanes))
        return self.emit(
            vector(element, len(lanes)), hint, f"shufflevector {left}, {right}, {kind} {picked}"
        )

    def float_binary(self, operator: str, left: Value, right: Value, hint: str) -> Value:
        """`fadd`, `fmul`, … of floats or vectors of them."""
        return self.emit(left.type, hint, f"{operator} {left}, {right.text}")

    def intrinsic(
        self,
        declaration: str,
        result: str,
        arguments: Sequence[Value],
        hint: str,
        flags: str = "",
    ) -> Value:
        """Call an intrinsic that returns `result`; `declaration` is its line in the module, `flags`
        are fast-math flags, each with a space behind it."""
        call = self._call(declaration, f"{flags}{result}", arguments)
        return self.emit(result, hint, call)

    def intrinsic_effect(self, declaration: str, arguments: Sequence[Value]) -> None:
        """Call an intrinsic that returns nothing."""
        self._lines.append("  " + self._call(declaration, "void", arguments))

    def call(self, function: Function, *arguments: Operand) -> None:
        """Call a function of the module."""
        operands = ", ".join(str(value(argument)) for argument in arguments)
        self._lines.append(f"  call void @{function.name}({operands})")

    def stack(self, size: int, align: int, hint: str) -> Value:
        """`size` bytes on the stack; only in the entry block."""
        return self.emit(PTR, hint, f"alloca [{size} x i8], align {align}")

    # Control flow.

    @contextmanager
    def loop(
        self,
        name: str,
        start: Operand,
        stop: Operand,
        step: Operand = 1,
        carried: Sequence[Value] = (),
        *,
        runs: bool = False,
    ) -> Generator[Loop]:
        """A counted loop; `runs` promises that it runs at least once and drops the test."""
        start, stop = value(start), value(stop)
        before, body, done = self._block, self._fresh(name), self._fresh(f"{name}.done")
        if runs:
            self._branch(body)
        else:
            self._branch_if(self.compare("slt", start, stop), body, done)
        self._begin(body)
        # The phi nodes are written when the values that come back to them are known.
        place = len(self._lines)
        index = Value(I64, f"%{self._fresh(f'{name}.i')}")
        values = tuple(Value(v.type, f"%{self._fresh(f'{name}.carried')}") for v in carried)
        loop = Loop(index, values)
        yield loop
        following = self.add(index, step, f"{name}.next")
        latch = self._block
        phis = [f"  {index.text} = phi i64 [{start.text}, %{before}], [{following.text}, %{latch}]"]
        for phi, first, back in zip(values, carried, loop.next_values, strict=True):
            phis.append(
                f"  {phi.text} = phi {phi.type} [{first.text}, %{before}], [{back.text}, %{latch}]"
            )
        self._lines[place:place] = phis
        self._branch_if(self.compare("slt", following, stop), body, done)
        self._begin(done)
        if runs:
            loop.results = loop.next_values
            return
        loop.results = tuple(
            self.emit(
                back.type,
                f"{name}.result",
                f"phi {back.type} [{first.text}, %{before}], [{back.text}, %{latch}]",
            )
            for first, back in zip(carried, loop.next_values, strict=True)
        )

    @contextmanager
    def when(self, condition: Value, name: str = "when") -> Generator[None]:
        """Run the block only if `condition` holds."""
        then, done = self._fresh(name), self._fresh(f"{name}.done")
        self._branch_if(condition, then, done)
        self._begin(then)
        yield
        self._branch(done)
        self._begin(done)

    # Internals.

    def _binary(self, operator: str, left: Operand, right: Operand, hint: str) -> Value:
        left, right = value(left), value(right)
        return self.emit(left.type, hint, f"{operator} {left}, {right.text}")

    def _call(self, declaration: str, result: str, arguments: Sequence[Value]) -> str:
        self._intrinsics.add(declaration)
        name = declaration[declaration.index("@") : declaration.index("(")]
        operands = ", ".join(str(argument) for argument in arguments)
        return f"call {result} {name}({operands})"

    def _fresh(self, hint: str) -> str:
        count = self._names.get(hint, 0)
        self._names[hint] = count + 1
        return hint if count == 0 else f"{hint}.{count}"

    def _begin(self, block: str) -> None:
        self._lines.append(f"{block}:")
        self._block = block

    def _branch(self, block: str) -> None:
        self._lines.append(f"  br label %{block}")

    def _branch_if(self, condition: Value, then: str, otherwise: str) -> None:
        self._lines.append(f"  br {condition}, label %{then}, label %{otherwise}")


def is_zero(operand: Operand) -> bool:
    """Whether `operand` is the constant 0."""
    return _is(operand, "0")


def _is(operand: Operand, constant: str) -> bool:
    return value(operand).text == constant


@dataclass
class Module:
    """Functions and constant tables, in the order in which they are added."""

    _prefix: str = ""
    """Of the names of what is added."""
    _globals: list[str] = field(default_factory=list[str])
    _functions: list[Function] = field(default_factory=list[Function])

    def within(self, prefix: str) -> Module:
        """A module whose functions and tables become this one's, each under a name that begins with
        `prefix`, so that several kernels are written into one."""
        return Module(f"{self._prefix}{prefix}", self._globals, self._functions)

    def table(self, name: str, values: Sequence[int]) -> Value:
        """A constant array of i64, and its address."""
        elements = ", ".join(f"i64 {v}" for v in values)
        symbol = f"@{self._prefix}{name}"
        self._globals.append(f"{symbol} = internal constant [{len(values)} x i64] [{elements}]")
        return Value(PTR, symbol)

    def zeros(self, name: str, size: int, align: int) -> Value:
        """`size` bytes of zeros that nobody writes, and their address."""
        symbol = f"@{self._prefix}{name}"
        room = f"[{size} x i8] zeroinitializer, align {align}"
        self._globals.append(f"{symbol} = internal global {room}")
        return Value(PTR, symbol)

    def filled(self, name: str, size: int, align: int, byte: int) -> Value:
        """`size` bytes `byte` that nobody writes, and their address."""
        if not byte:
            return self.zeros(name, size, align)
        text = f"\\{byte:02X}" * size
        self._globals.append(f'@{name} = internal global [{size} x i8] c"{text}", align {align}')
        return Value(PTR, f"@{name}")

    def add(self, function: Function) -> Function:
        """Append a function."""
        function.name = f"{self._prefix}{function.name}"
        self._functions.append(function)
        return function

    def function(self, name: str) -> Function | None:
        """The function of this name, if it was added."""
        name = f"{self._prefix}{name}"
        return next((function for function in self._functions if function.name == name), None)

    def called_inside(self, name: str) -> Function:
        """The entry of that name, which nobody calls from outside any more."""
        found = self.function(name)
        assert found is not None
        found.external = False
        return found

    def text(self) -> str:
        """The module as LLVM assembly."""
        declarations: set[str] = set()
        for function in self._functions:
            declarations |= function.intrinsics
        parts = ["\n".join(self._globals), *(function.text() for function in self._functions)]
        return "\n".join([*parts, *sorted(declarations)]) + "\n"
