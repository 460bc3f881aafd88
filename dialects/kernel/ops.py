"""The kernel dialect: what will be one launch, and what it means.

A `kernel.region` holds the tensor ops that one launch will do: fusion moves ops into and out of
it, selection attaches an implementation, and nothing else changes. Outlining turns each region
into an isolated `kernel.func` that keeps its tensor body, so that a kernel always carries its own
reference meaning, and leaves a `kernel.call` in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ReferenceType, WeakKeyDictionary, ref

from xdsl.dialects.builtin import (
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.utils import (
    AbstractYieldOperation,
    parse_func_op_like,
    print_func_op_like,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
    SymbolTable,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from convir.dialects.linalg.syntax import parse_result_types, print_result_types

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from xdsl.parser import Parser
    from xdsl.printer import Printer


ALLOW_TF32 = "convir.allow_tf32"
"""A function, a `kernel.region` or a `kernel.func` with this attribute may round what it multiplies
in contractions of f32 to TF32, whose mantissa has 10 bits. Sums stay f32."""


def verify_configs(configs: Attribute | None) -> None:
    """Check that each entry of `configs` maps a device to the string of one kernel config.

    Raises:
        VerifyException: it is not a dictionary, or an entry is not a string.
    """
    if configs is None:
        return
    if not isinstance(configs, DictionaryAttr):
        raise VerifyException(f"configs are a dictionary, not {configs}")
    for device, config in configs.data.items():
        if not isinstance(config, StringAttr):
            raise VerifyException(f"the config for device '{device}' is not a string: {config}")


def _verify_terminated(body: Region, types: Sequence[Attribute], what: str) -> None:
    yielded = body.block.last_op
    found = tuple(operand.type for operand in yielded.operands) if yielded is not None else ()
    if found != tuple(types):
        raise VerifyException(
            f"{what} has results ({', '.join(map(str, types))}) "
            f"but its body ends with ({', '.join(map(str, found))})"
        )


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Ends a `kernel.region` with its results."""

    name = "kernel.yield"
    traits = lazy_traits_def(lambda: (IsTerminator(), NoMemoryEffect(), HasParent(RegionOp)))


@irdl_op_definition
class ReturnOp(AbstractYieldOperation[Attribute]):
    """Ends a `kernel.func` with its results."""

    name = "kernel.return"
    traits = lazy_traits_def(lambda: (IsTerminator(), NoMemoryEffect(), HasParent(FuncOp)))


@irdl_op_definition
class RegionOp(IRDLOperation):
    """Tensor ops that will be one launch, or one library call plus its epilogue.

        %y = kernel.region configs {host = "loops"} {
          %0 = linalg.generic … ins(%x : …) …
          kernel.yield %0 : tensor<4x8xf32>
        } -> tensor<4x8xf32>

    Values of the enclosing function may be used freely (captures). `configs` maps a device to
    the canonical string of the kernel config that selection chose for it.
    """

    name = "kernel.region"

    configs = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")
    res = var_result_def(TensorType[Attribute])

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        body: Region,
        result_types: Sequence[Attribute],
        configs: DictionaryAttr | None = None,
    ) -> None:
        super().__init__(
            result_types=[result_types], regions=[body], properties={"configs": configs}
        )

    def verify_(self) -> None:
        verify_configs(self.configs)
        if self.body.block.args:
            raise VerifyException("the body of a kernel.region captures; it has no arguments")
        _verify_terminated(self.body, self.res.types, "kernel.region")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        configs = _parse_configs(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        region = cls(body, parse_result_types(parser), configs)
        if attributes is not None:
            region.attributes |= attributes.data
        return region

    def print(self, printer: Printer) -> None:
        _print_configs(printer, self.configs)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)
        print_result_types(printer, self.res.types)


@irdl_op_definition
class FuncOp(IRDLOperation):
    """An outlined kernel: an isolated function on tensors that one launch computes.

    Its arguments are the region's captures, its results the region's results. The body is the
    kernel's meaning; `configs` names, per device, the implementation that stands for it.
    """

    name = "kernel.func"

    body = region_def("single_block")
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    configs = opt_prop_def(DictionaryAttr)

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        function_type: FunctionType,
        body: Region,
        configs: DictionaryAttr | None = None,
    ) -> None:
        super().__init__(
            regions=[body],
            properties={
                "sym_name": StringAttr(name),
                "function_type": function_type,
                "configs": configs,
            },
        )

    def verify_(self) -> None:
        verify_configs(self.configs)
        if self.function_type.inputs.data != tuple(self.body.block.arg_types):
            raise VerifyException("the body's arguments differ from the function type's inputs")
        _verify_terminated(self.body, self.function_type.outputs.data, "kernel.func")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        begin = parser.pos
        name, inputs, outputs, body, extra, _, _ = parse_func_op_like(
            parser, reserved_attr_names=("sym_name", "function_type")
        )
        attributes = dict(extra.data) if extra is not None else {}
        configs = attributes.pop("configs", None)
        if configs is not None and not isinstance(configs, DictionaryAttr):
            parser.raise_error("'configs' must be a dictionary", begin, begin)
        op = cls(name, FunctionType.from_lists(list(inputs), list(outputs)), body, configs)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        attributes = dict(self.attributes)
        if self.configs is not None:
            attributes["configs"] = self.configs
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            attributes,
            reserved_attr_names=("sym_name", "function_type"),
        )


_kernels: WeakKeyDictionary[Operation, dict[str, ReferenceType[FuncOp]]] = WeakKeyDictionary()
"""Of each module its kernels by name, as they were when last one was looked for in vain."""


def callee_of(op: Operation, callee: SymbolRefAttr) -> FuncOp | None:
    """The kernel that `callee` names in the module of `op`; None if it names none.

    A program has as many kernels as calls, so that looking through all of them for each call would
    take the square of their number.
    """
    module = op.parent_op()
    while module is not None and not module.has_trait(SymbolTable):
        module = module.parent_op()
    if module is None:
        return None
    name = callee.root_reference.data
    known = _kernels.get(module, {}).get(name)
    found = None if known is None else known()
    if found is not None and found.parent_op() is module and found.sym_name.data == name:
        return found
    named = {o.sym_name.data: ref(o) for o in module.regions[0].block.ops if isinstance(o, FuncOp)}
    _kernels[module] = named
    return named[name]() if name in named else None


class _CalleeMatches(SymbolUserOpInterface):
    """A `kernel.call` names a `kernel.func` of its own type."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp)
        if op.parent_op() is None:
            return
        callee = callee_of(op, op.callee)
        if callee is None:
            raise VerifyException(f"{op.callee} does not name a kernel.func")
        if callee.function_type.inputs.data != tuple(op.arguments.types):
            raise VerifyException(f"operand types differ from the inputs of {op.callee}")
        if callee.function_type.outputs.data != tuple(op.res.types):
            raise VerifyException(f"result types differ from the outputs of {op.callee}")


@irdl_op_definition
class CallOp(IRDLOperation):
    """One launch, still on tensors: `%y = kernel.call @k(%x) : (tensor<…>) -> tensor<…>`."""

    name = "kernel.call"

    callee = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    res = var_result_def(TensorType[Attribute])

    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"
    traits = traits_def(Pure(), _CalleeMatches())

    def __init__(
        self, callee: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            properties={"callee": SymbolRefAttr(callee)},
        )


def _parse_configs(parser: Parser) -> DictionaryAttr | None:
    if parser.parse_optional_keyword("configs") is None:
        return None
    return DictionaryAttr(parser.parse_optional_attr_dict())


def _print_configs(printer: Printer, configs: DictionaryAttr | None) -> None:
    if configs is None:
        return
    printer.print_string(" configs ")
    printer.print_attribute(configs)


Kernel = Dialect("kernel", [CallOp, FuncOp, RegionOp, ReturnOp, YieldOp], [])
