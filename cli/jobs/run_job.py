"""One run of `convir-run`: read, rewrite, run, print, save, check."""

from __future__ import annotations

import logging
import os.path
import sys
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import DiagnosticException

from convir.cli.arguments.array_values import (
    input_array,
    npy_bytes,
    output_paths,
    result_text,
    shape_of_input,
)
from convir.cli.arguments.parser import STREAM, UsageError
from convir.cli.arguments.run import DEFAULT_FUNCTION, REFERENCE
from convir.cli.arguments.stages import DEFAULT_PIPELINE
from convir.cli.files.conv_lines import parse_argument
from convir.cli.files.model_files import read_onnx
from convir.cli.files.streams import (
    EXIT_FAILURE,
    EXIT_OK,
    STDIN_NAME,
    check_writable,
    read_input,
    report_traceback,
    write_output,
    write_stdout,
)
from convir.cli.jobs.sound_files import run_stream
from convir.cli.reports.reporter import Reporter
from convir.dialects.context import read_module
from convir.dialects.diagnostics import Diagnostic, DiagnosticError, diagnostic_of, one_line
from convir.frontends.conv_module import SOURCE_ATTRIBUTE, module_of_line
from convir.frontends.miopen import parse_line
from convir.frontends.miopen_options import LineError
from convir.frontends.sources import NAM_SUFFIX, ONNX_SUFFIX
from convir.passes.bind_sizes.pass_ import BindSizesPass, OpenSizeError, is_dynamic
from convir.passes.bind_sizes.size_rules import spelled
from convir.passes.inline import InlinePass
from convir.passes.manager.pass_manager import run
from convir.passes.manager.pipeline_text import PipelineError, named_pipeline, parse_pipeline
from convir.reference.checking.check import Budget, Checker, Report, evaluate_tracked
from convir.reference.checking.inputs import random_arguments
from convir.reference.exactness.facts import EXACT, Fact
from convir.reference.ops.programs import is_program, tensor_types
from convir.runtime.compile_error import CompileError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute
    from xdsl.passes import ModulePass

    from convir.reference.dtypes import Array

_log = logging.getLogger(__name__)


def run_file(options: Namespace) -> int:
    """Run the whole job that `options` describe; returns the exit status.

    Raises:
        UsageError: the options name what cannot be used, or values that do not fit.
    """
    name = STDIN_NAME if options.file == STREAM else options.file
    reporter = Reporter(name)
    try:
        if options.file.endswith(NAM_SUFFIX):
            return run_stream(options, name)
        options.device = options.device or REFERENCE
        if options.device == REFERENCE and options.workspace_bytes is not None:
            raise UsageError(f"--workspace-bytes is for devices, not for the {REFERENCE}")
        if options.device == REFERENCE and options.trace is not None:
            raise UsageError(f"--trace is for devices, not for the {REFERENCE}")
        return _run(options, name, reporter)
    except CompileError as error:
        report_traceback(debug=options.debug)
        reporter.report(Diagnostic(name, 0, 0, "error", one_line(error)))
        return EXIT_FAILURE
    except DiagnosticException as error:
        report_traceback(debug=options.debug)
        found = error.diagnostics if isinstance(error, DiagnosticError) else (diagnostic_of(error),)
        for diagnostic in found:
            reporter.report(diagnostic)
        return EXIT_FAILURE


def _run(options: Namespace, name: str, reporter: Reporter) -> int:
    passes = _passes(options)
    paths = output_paths(options.outputs)
    for path in paths if options.trace is None else (*paths, options.trace):
        check_writable(path)
    module = _module(options, name, reporter)
    function = _function(module, options.function)
    types, result_types = tensor_types(function)
    if len(paths) > len(result_types):
        raise UsageError(
            f"there are {len(paths)} outputs, but the function has {len(result_types)} results"
        )
    arguments = _arguments(options.inputs, types, options.seed)
    bound = _bound(module, function, arguments, options.device)
    rewritten = run(bound, passes).module if passes else bound
    results, facts = _execute(rewritten, function.sym_name.data, arguments, options)
    for position, result in enumerate(results):
        write_stdout(result_text(position, result))
    for path, result in zip(paths, results, strict=False):
        write_output(path, npy_bytes(result))
    if not options.check:
        return EXIT_OK
    reports = _checks(module, function, arguments, results, facts, options.max_steps)
    for what, report in reports.items():
        write_stdout(f"check against {what}: {report}\n")
    return EXIT_OK if all(report.passed for report in reports.values()) else EXIT_FAILURE


def _module(options: Namespace, name: str, reporter: Reporter) -> ModuleOp:
    """The module to run; a model takes open sizes from the inputs."""
    if len(options.file.split()) > 1 and not os.path.exists(options.file):
        return module_of_line(parse_argument(options.file))
    if not options.file.endswith(ONNX_SUFFIX):
        data = read_input(options.file)
        reporter.show(data)
        return read_module(data, name)
    return read_onnx(options.file, [shape_of_input(value) for value in options.inputs])


def _passes(options: Namespace) -> Sequence[ModulePass]:
    """The passes that were asked for."""
    pipeline: str | None = options.pipeline
    try:
        return (
            parse_pipeline(options.passes or "") if pipeline is None else named_pipeline(pipeline)
        )
    except PipelineError as error:
        raise UsageError(str(error)) from error


def _function(module: ModuleOp, name: str | None) -> FuncOp:
    """The function called `name`; if no name was given `main`, or the only one there is."""
    functions = {
        op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp) and op.body.blocks
    }
    wanted = name or (DEFAULT_FUNCTION if len(functions) != 1 else next(iter(functions)))
    function = functions.get(wanted)
    if function is None:
        known = ", ".join(functions) or "none"
        raise UsageError(f"there is no function '{wanted}' with a body; the module has: {known}")
    return function


def _arguments(values: Sequence[str], types: Sequence[Attribute], seed: int) -> tuple[Array, ...]:
    if not values:
        try:
            return random_arguments(types, seed)
        except ValueError as error:
            raise UsageError(str(error)) from error
    if len(values) != len(types):
        raise UsageError(f"there are {len(values)} inputs, but the function takes {len(types)}")
    return tuple(
        input_array(value, declared, seed, position)
        for position, (value, declared) in enumerate(zip(values, types, strict=True))
    )


def _bound(module: ModuleOp, function: FuncOp, arguments: Sequence[Array], device: str) -> ModuleOp:
    """The module with the sizes that the arguments have, where the function leaves them open.

    The reference also runs what only its execution can tell the sizes of.

    Raises:
        DiagnosticError: the sizes contradict each other, or the device needs to know them.
    """
    if is_program(function) or not is_dynamic(function):
        return module
    sizes = tuple(spelled(array.shape) for array in arguments)
    bind = BindSizesPass(sizes, function.sym_name.data)
    try:
        return run(module, (bind,) if device == REFERENCE else (InlinePass(), bind)).module
    except OpenSizeError as error:
        if device != REFERENCE:
            raise
        _log.info("evaluated with dynamic sizes: %s", error)
        return module


def _execute(
    module: ModuleOp,
    function: str,
    arguments: Sequence[Array],
    options: Namespace,
) -> tuple[tuple[Array, ...], tuple[Fact, ...]]:
    """The results, and what is known of how they were computed."""
    device = options.device
    if device == REFERENCE:
        return evaluate_tracked(module, function, arguments, options.max_steps)
    from convir.cli.jobs.compiled_function import run_compiled  # noqa: PLC0415  (brings LLVM along)

    # As `convir.compile` does, unless the command line says what is run first.
    is_told = options.pipeline is not None or options.passes is not None
    results = run_compiled(
        module,
        function,
        arguments,
        device,
        options.workspace_bytes,
        "" if is_told else DEFAULT_PIPELINE,
        options.trace,
    )
    return results, (EXACT,) * len(results)


def _checks(
    module: ModuleOp,
    function: FuncOp,
    arguments: Sequence[Array],
    results: Sequence[Array],
    facts: Sequence[Fact],
    max_steps: int,
) -> dict[str, Report]:
    """How the results compare with the module as read, and with the convolution it came from."""
    # A check that was asked for runs, whatever it takes but steps without an end.
    budget = Budget(bytes=sys.maxsize, flops=sys.maxsize, steps=max_steps)
    expected = {"the module as read": module}
    reports: dict[str, Report] = {}
    source = module.attributes.get(SOURCE_ATTRIBUTE)
    if isinstance(source, StringAttr):
        try:
            definition = module_of_line(parse_line(source.data))
        except LineError as error:
            reports["its source"] = Report(False, False, reason=f"column {error.column}: {error}")
        else:
            if _defines(definition, function):
                expected["its source"] = definition
    name = function.sym_name.data
    for what, other in expected.items():
        checker = Checker(other, name, budget=budget, arguments=arguments)
        reports[what] = checker.check_results(name, results, facts)
    return reports


def _defines(definition: ModuleOp, function: FuncOp) -> bool:
    """Whether `definition` has a function of the name and the type of `function`."""
    return any(
        isinstance(op, FuncOp)
        and op.sym_name == function.sym_name
        and op.function_type == function.function_type
        for op in definition.walk()
    )
