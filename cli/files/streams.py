"""Bytes in and out of a tool: one clear error where they cannot flow, nothing left half written."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from convir.cli.arguments.parser import STREAM, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STDIN_NAME = "<stdin>"
"""What diagnostics call the standard input."""

STDOUT_NAME = "<stdout>"

EXIT_OK = 0
EXIT_FAILURE = 1
"""A diagnostic was given."""
EXIT_USAGE = 2
"""The command line was wrong."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells say it."""
EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, as shells say it."""


def guarded(tool: str, argv: Sequence[str], body: Callable[[Sequence[str]], int]) -> int:
    """The exit status of `body(argv)`; every failure is one line, `--debug` adds the traceback."""
    try:
        status = body(argv)
        if sys.stdout is not None:
            sys.stdout.flush()
    except UsageError as exc:
        sys.stderr.write(f"{tool}: error: {exc}\n")
        return EXIT_USAGE
    except SystemExit as end:  # argparse's way after --help and --version
        return int(end.code or EXIT_OK)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_BROKEN_PIPE
    except MemoryError as exc:
        report_traceback(debug="--debug" in argv)
        sys.stderr.write(f"{tool}: error: {str(exc) or 'out of memory'}\n")
        return EXIT_FAILURE
    except OSError as exc:
        _silence_stdout()
        sys.stderr.write(f"{tool}: error: {exc.filename or STDOUT_NAME}: {exc.strerror}\n")
        return EXIT_FAILURE
    except Exception as exc:
        debug = "--debug" in argv
        report_traceback(debug=debug)
        sys.stderr.write(
            f"{tool}: error: defect of convir: {described(exc)}{debug_hint(debug=debug)}\n"
        )
        return EXIT_FAILURE
    return status


def described(exc: BaseException) -> str:
    """`TypeName: message` of an exception, on one line."""
    return " ".join(f"{type(exc).__name__}: {exc}".split()).removesuffix(":")


def debug_hint(*, debug: bool) -> str:
    """What to add to the report of a defect unless its traceback was shown."""
    return "" if debug else " (--debug shows the traceback)"


def report_traceback(*, debug: bool) -> None:
    """Print the traceback of the exception being handled, where `debug` asks for it."""
    if debug:
        import traceback  # noqa: PLC0415  (rarely needed)

        traceback.print_exc()


def _silence_stdout() -> None:
    """Let the flush at exit succeed although nobody reads."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_input(path: str) -> bytes:
    """All bytes of the file `path`, or of the standard input for `-`.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    if path == STREAM:
        return _opened(sys.stdin, STDIN_NAME).buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise UsageError(f"{path!r}: {exc}") from exc


def write_stdout(text: str) -> None:
    """Write `text` to the standard output.

    Raises:
        UsageError: the standard output is closed.
    """
    _opened(sys.stdout, STDOUT_NAME).write(text)


def _opened(stream: TextIO | None, name: str) -> TextIO:
    if stream is None:
        raise UsageError(f"{name} is closed")
    return stream


def check_writable(path: str) -> None:
    """Fail before the work and not after it where `path` can never be written.

    Raises:
        UsageError: `path` is a folder, or its folder is missing or read-only, or it is `-`.
    """
    if path == STREAM:
        raise UsageError("- is the standard output, which holds other text: name a file, as ./-")
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{path}: Is a directory")
    if not target.parent.is_dir():
        raise UsageError(f"{path}: No such directory '{target.parent}'")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise UsageError(f"{path}: Permission denied")


def write_output(path: str, content: str | bytes) -> None:
    """Write `content`, text as UTF-8, to the file `path`, all of it or, on failure, nothing.

    A regular file is replaced in one step and keeps its mode; a link is followed; a device or a
    pipe is written to.

    Raises:
        UsageError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    data = content.encode() if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from exc


def _replace(target: Path, data: bytes) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        if target.exists():
            partial.chmod(target.stat().st_mode)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
