"""What is compiled, with all that it depends on: the key of the program cache."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.frontends.onnx.files import external_files, located, parse_model
from convir.frontends.sources import (
    TEXT_NAME,
    SourceKind,
    block_frames,
    kind_of,
    read_line,
    read_nam,
    read_onnx,
    read_text,
)
from convir.runtime.cache.digest import digest_of, digest_of_file
from convir.runtime.cache.program_cache import files_key, load_program, store_program
from convir.runtime.cache.program_entry import ModelFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from xdsl.dialects.builtin import ModuleOp

    from convir.dialects.diagnostics import DiagnosticError
    from convir.frontends.elements import Array
    from convir.frontends.onnx.ends import Ends
    from convir.frontends.pytorch.program import AtenProgram
    from convir.frontends.sources import Shapes

_BLOB = b"conv.blob"
_BLOB_FILE = re.compile(rb'conv\.blob\s*<\s*"((?:[^"\\]|\\.)*)"')
"""The file that a constant names, as MLIR spells it."""
_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))")
_LETTERS = {b"n": b"\n", b"t": b"\t"}


def _is_settled() -> None:
    """Nothing can be otherwise."""


@dataclass(frozen=True)
class Source:
    """One thing to compile."""

    name: str
    """What errors call it."""
    content: bytes | None
    """All that its module depends on; None where only the module itself says it, which is then
    compiled anew each time."""
    read: Callable[[], ModuleOp]
    """A verified module that nobody else holds. Raises DiagnosticError where there is none."""
    open: OpenModel | None = None
    """What it is before the sizes of its inputs are known; None where they are, or never are."""
    settle: Callable[[], None] = _is_settled
    """To be called before anybody keeps what was made of the module: raises DiagnosticError where
    its files were written meanwhile, which is found out while passes run."""
    forget: Callable[[], None] = _is_settled
    """Let go of what was read beside the module."""

    def kept(self) -> Source:
        """The same, whatever its caller does with it later."""
        if self.open is None or isinstance(self.open.model, str | Path):
            return self
        return replace(self, open=replace(self.open, model=deepcopy(self.open.model)))


@dataclass(frozen=True)
class OpenModel:
    """A model that may leave sizes of its inputs open, which calls then bind."""

    model: Any
    """A path, or a `ModelProto`."""
    shapes: Shapes
    """Of the inputs, in order, where they are given."""
    values: Mapping[str, Any]
    """The inputs that become constants, by name."""
    files: bytes | None = None
    """What its files held when it was opened."""

    def ends(self) -> Ends:
        """What it takes and gives.

        Raises:
            DiagnosticError: it does not say.
        """
        from convir.frontends.onnx.ends import ends_of  # noqa: PLC0415  (brings xDSL along)

        return ends_of(self.model, self.shapes, self.values)

    def bound(self, shapes: Shapes) -> Source:
        """The model for the shapes of all inputs.

        Raises:
            DiagnosticError: its file was written since it was opened.
        """
        if self.files is not None and self.files != _onnx_files(self.model):
            raise _written(self.model, "since it was opened")
        return _onnx(self.model, shapes, self.values)


def source_of(
    given: Any,
    shapes: Shapes,
    size: float,
    values: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] | None = None,
) -> Source:
    """A source, whatever kind it is of, with what its module depends on.

    Args:
        given: what `convir.frontends.sources` reads.
        shapes: of the inputs of a model, in order, where it leaves sizes open.
        size: which of the models that a .nam file contains.
        values: inputs of an ONNX model that become constants, by name.
        example_inputs: the arguments of a module of PyTorch.

    Raises:
        DiagnosticError: a model cannot be read.
        OSError: a file of text cannot be read.
        TypeError: `given` is not a source, or a module of PyTorch comes without example inputs.
        ValueError: a .nam model is given no shape of a block.
    """
    match kind_of(given):
        case SourceKind.MODULE:
            return _module(given)
        case SourceKind.TEXT:
            return _text(given.encode(), TEXT_NAME)
        case SourceKind.LINE:
            return Source(given, given.encode(), lambda: read_line(given))
        case SourceKind.FILE:
            return _text(Path(given).read_bytes(), str(given))
        case SourceKind.ONNX_FILE | SourceKind.ONNX_MODEL:
            kept = {name: deepcopy(value) for name, value in (values or {}).items()}
            return _onnx(given, shapes, kept)
        case SourceKind.NAM_FILE:
            frames = block_frames(Path(given), shapes)
            return nam_source(Path(given), frames, frames, size)
        case SourceKind.PYTORCH:
            return _torch(given, example_inputs)


def _torch(given: Any, example_inputs: Sequence[Any] | None) -> Source:
    from convir.frontends.pytorch.importer import read_torch  # noqa: PLC0415  (brings PyTorch along)

    return graph_source(read_torch(given, example_inputs))


def graph_source(program: AtenProgram) -> Source:
    """A graph of PyTorch's that was read: its nodes, and digests of its constants."""
    from convir.frontends.pytorch.importer import module_of  # noqa: PLC0415  (as above)

    model = program.model
    constants = [
        (name, array.dtype.str, array.shape, _digest_of_array(array))
        for name, array in model.constants.items()
    ]
    said = repr(("aten", model.opset, model.nodes, constants, model.inputs, model.outputs))
    return Source(model.file, said.encode(), lambda: module_of(program))


def _digest_of_array(array: Array) -> bytes:
    return digest_of(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _module(given: ModuleOp) -> Source:
    from convir.api.module_text import text_of  # noqa: PLC0415  (brings xDSL along)
    from convir.dialects.diagnostics import verify  # noqa: PLC0415  (as above)

    # Dynamic sizes are compiled later, when callers may have changed their module.
    module = given.clone()

    def read() -> ModuleOp:
        verify(module)
        return module.clone()

    text = text_of(module)
    return Source(TEXT_NAME, None if text is None else _with_weights(text, Path()), read)


def _text(text: bytes, name: str) -> Source:
    return Source(name, _with_weights(text, Path(name).parent), lambda: read_text(text, name))


def _with_weights(text: bytes, folder: Path) -> bytes | None:
    """A text and the digests of the files that its constants name, which lie in `folder` unless
    the text says where; None where one cannot be read.

    A file that is no longer what the text says is an error, whatever was compiled before.
    """
    if _BLOB not in text:
        return text
    names = _BLOB_FILE.findall(text)
    if len(names) != text.count(_BLOB):
        return None
    try:
        files = [_ESCAPE.sub(_escaped, name).decode() for name in sorted(set(names))]
        digests = [(file, digest_of_file(folder / file)) for file in files]
    except (OSError, ValueError):
        return None
    return repr(digests).encode() + text


def _escaped(found: re.Match[bytes]) -> bytes:
    """What an escape in a string of MLIR stands for."""
    code, letter = found.groups()
    return bytes.fromhex(code.decode()) if code else _LETTERS.get(letter, letter)


def _unchanged(module: ModuleOp, path: Path, then: bytes | None, now: bytes | None) -> ModuleOp:
    """`module`, read of a file that was `then` what it is `now`: else it is no one's module.

    Raises:
        DiagnosticError: the file was written meanwhile.
    """
    if then is not None and then != now:
        raise _written(path, "while it was compiled")
    return module


def _written(path: Path, when: str) -> DiagnosticError:
    from convir.dialects.diagnostics import Diagnostic, DiagnosticError  # noqa: PLC0415  (as above)

    return DiagnosticError(Diagnostic(str(path), 0, 0, "error", f"was written {when}"))


def _onnx(given: Any, shapes: Shapes, values: Mapping[str, Any]) -> Source:
    """A path, or a `ModelProto`, which is compiled anew each time."""
    if not isinstance(given, str | Path):
        opened = OpenModel(given, shapes, values)
        return Source("<model>", None, lambda: read_onnx(given, shapes, values), opened)
    path = Path(given)
    parsed: list[Any] = []
    files = _onnx_files(path, parsed.append)
    known = [
        (name, array.dtype.str, array.shape, array.tobytes())
        for name, array in ((name, np.asarray(values[name])) for name in sorted(values))
    ]
    asked = repr(("onnx", [*map(_spelled, shapes)], known)).encode()

    looks: list[Future[bytes | None]] = []

    def read() -> ModuleOp:
        module = read_onnx(path, shapes, values, parsed.pop() if parsed else None)
        looks.append(_in_background(lambda: _onnx_files(path, threads=1)))
        return module

    def settle() -> None:
        while looks:
            now = looks.pop().result()
            if files is not None and files != now:
                raise _written(path, "while it was compiled")

    content = None if files is None else asked + files
    opened = OpenModel(path, shapes, values, files)
    return Source(str(path), content, read, opened, settle, parsed.clear)


def _in_background(work: Callable[[], bytes | None]) -> Future[bytes | None]:
    """What `work` gives, of a thread of its own."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (few need it)

    pool = ThreadPoolExecutor(1, "convir-digest")
    try:
        return pool.submit(work)
    finally:
        pool.shutdown(wait=False)


def _onnx_files(
    path: Path, parsed: Callable[[Any], None] | None = None, threads: int | None = None
) -> bytes | None:
    """The digests of all files of a model; None where one cannot be read.

    Args:
        path: of the model.
        parsed: is given the model, where finding its files took parsing it.
        threads: how many digest a file; None for all cores.
    """
    try:
        digest = digest_of_file(path, threads)
        key = files_key(digest)
        if key is None:
            return None
        files = load_program(key)
        if not isinstance(files, ModelFiles):
            model = parse_model(path)
            files = ModelFiles(external_files(model))
            store_program(key, files)
            if parsed is not None:
                parsed(model)
        found = [(name, located(path.parent, name)) for name in files.names]
        parts = [(name, digest_of_file(file, threads)) for name, file in found]
    except Exception:
        return None
    return repr((digest, parts)).encode()


def _spelled(shape: Sequence[int] | None) -> list[int] | None:
    return None if shape is None else list(shape)


def nam_source(path: Path, frames: int, room: int, size: float) -> Source:
    """A .nam model for blocks of `frames` frames, whose windows have room for `room`.

    Args:
        path: of the file.
        frames: of a block.
        room: frames of a window behind those that came before the block.
        size: which of the models that the file contains.
    """

    def read() -> ModuleOp:
        module = read_nam(path, frames, room, size)
        return _unchanged(module, path, content, said())

    def said() -> bytes | None:
        try:
            return f"{frames} {room} {size}\n".encode() + path.read_bytes()
        except OSError:
            return None  # The front end says so.

    content = said()
    return Source(str(path), content, read)
