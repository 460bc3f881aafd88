"""`convir.explain`: what a compile does, as a report that shows itself in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convir.api.arguments import check_fraction, check_pipeline, check_shapes, check_type
from convir.api.build import Build
from convir.api.sources import source_of
from convir.lowering.kernels.target import named, names
from convir.report.collect import Collector
from convir.report.page.answers import Answer, answers
from convir.report.page.document import page_of
from convir.runtime.devices import CUDA, Device, find_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.report.collect import Record

_FRAME = "width:100%;height:44rem;border:1px solid #8884"


@dataclass(frozen=True)
class Report:
    """What a compile did."""

    data: Record
    """Passes, kernels, buffers and texts, as JSON holds them."""

    def __repr__(self) -> str:
        return f"<Report of {self.data['name']} for {self.data['device']}>"

    def __str__(self) -> str:
        """The answers to what a reader asks first."""
        return "\n".join(f"{each.question} {each.text}" for each in self.answers)

    @property
    def answers(self) -> list[Answer]:
        """What a reader asks first, with what this report says to it."""
        return answers(self.data)

    def html(self) -> str:
        """The report as one page that needs nothing else."""
        return page_of(self.data)

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Raises:
            OSError: it cannot be written.
        """
        Path(path).write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        return f'<iframe title="convir" style="{_FRAME}" srcdoc="{escape(self.html())}"></iframe>'


def explain(
    source: str | Path | ModuleOp | Any,
    pipeline: str | Sequence[ModulePass] = "default",
    device: str = "auto",
    *,
    function: str | None = None,
    workspace_bytes: int | None = None,
    shapes: Sequence[Sequence[int] | None] = (),
    values: Mapping[str, Any] | None = None,
    size: float = 1.0,
    allow_tf32: bool = False,
    check_each: bool = False,
    measure: bool = False,
    census: Sequence[Record] | None = None,
) -> Report:
    """Compile a function once more, and say what each pass did and why each kernel was chosen.

    Nothing is run unless `measure` asks for it.

    Args:
        source: what `convir.compile` takes.
        pipeline: as `convir.compile` takes it.
        device: as `convir.compile` takes it; or a GPU that kernels can be planned for without one,
            such as `h200`.
        function: the name of the function; None for the only one, or `main` of several.
        workspace_bytes: the most that temporaries may take, in bytes; None for no limit.
        shapes: of the inputs of a model, in order, where it leaves sizes open.
        values: inputs of an ONNX model that become constants, by name.
        size: which of the models that a .nam file contains, from 0 (the smallest) to 1.
        allow_tf32: whether a GPU may round what it multiplies in f32 to TF32.
        check_each: whether each pass that changes something is checked on the NumPy reference.
        measure: whether the program is compiled and run on random inputs, and the report has what
            each kernel takes on `device`, which must be one of this machine's: on one thread of the
            CPU, as predictions are, or on the GPU.
        census: rows of `convir.pytorch` that the report shows besides: what `--census FILE.json`
            has written.

    Raises:
        DiagnosticError: the source is not valid IR, a pass failed, or a check did.
        PassFailedException: there is no such function, or a kernel has no code for the device.
        CompileError: a toolchain refused the code of what is measured.
        OSError: a file of text cannot be read.
        TypeError: an argument is of a type that means nothing here.
        ValueError: `device` names no device, or one that is not this machine's is to be measured.
        NoGpuError: a GPU was asked for by name and cannot be used.
        GpuMemoryError: what is measured does not fit on the GPU.
    """
    check_pipeline(pipeline)
    check_type("device", device, str, "the name of a device or a GPU")
    check_type("function", function, str | None, "the name of a function")
    check_shapes(shapes)
    check_fraction("size", size)
    check_type("measure", measure, bool, "True or False")
    found = planned_device(device)
    build = Build(
        source_of(source, shapes, size, values),
        function,
        pipeline,
        found,
        workspace_bytes,
        allow_tf32=allow_tf32,
    )
    module = build.copy()
    if measure and found.model is not None:
        raise ValueError(
            f"measure=True runs the program, and device={device!r} only plans it: 'cuda' is this "
            "machine's GPU, 'cpu' its CPU"
        )
    collector = Collector(title_of(source), found, measures=measure)
    instruments = (collector.check_each(),) if check_each else ()
    collector.run(module, build.passes, workspace_bytes, instruments)
    report = collector.data(module)
    return Report({**report, "census": list(census)} if census else report)


def planned_device(name: str) -> Device:
    """A device, or a GPU by the name of its file of rates, which this machine need not have.

    Raises:
        ValueError: no device and no GPU has that name.
        NoGpuError: a GPU was asked for by name and cannot be used.
    """
    return Device(CUDA, 0, named(name)) if name in names() else find_device(name)


def title_of(source: object) -> str:
    """What a report calls a source."""
    if isinstance(source, Path):
        return source.name
    if isinstance(source, str) and "\n" not in source:
        return source.rpartition("/")[2] if Path(source).suffix else source
    return type(source).__name__ if not isinstance(source, str) else "MLIR text"
