"""NVRTC through ctypes: compiles in this process, or as one that compiles for another.

NVRTC's threads wait for each other: sixteen of them keep four cores busy. Processes do not, and one
that imports nothing but this starts in the time of a small kernel:

    python -m convir.runtime.cuda.toolchain.nvrtc LIBRARY

It reads requests and writes answers, a line of JSON each, behind an answer its bytes, until its
input ends.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

_BUILTINS = "libnvrtc-builtins.so*"
_MODULE = "convir.runtime.cuda.toolchain.nvrtc"


class RefusedError(Exception):
    """NVRTC refuses a source; the text is its log."""


def compile_source(
    library: str, source: str, headers: Sequence[tuple[str, str]], options: Sequence[str]
) -> tuple[bytes, bytes]:
    """The cubin of a source, and NVRTC's log.

    Args:
        library: the path of NVRTC.
        source: CUDA C++.
        headers: name and text of what it includes, as far as that lies in no folder.
        options: of NVRTC.

    Raises:
        RefusedError: NVRTC refuses it.
    """
    nvrtc = _opened(library)
    program = ctypes.c_void_p()
    texts = _strings([text for _, text in headers])
    names = _strings([name for name, _ in headers])
    begin = (ctypes.byref(program), source.encode(), b"kernel.cu", len(headers), texts, names)
    status = nvrtc.nvrtcCreateProgram(*begin)
    if status:
        raise RefusedError(nvrtc.nvrtcGetErrorString(status).decode())
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _content(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log = log.rstrip(b"\0")
        if status:
            said = log.decode(errors="replace")
            raise RefusedError(said or nvrtc.nvrtcGetErrorString(status).decode())
        return _content(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def _opened(library: str) -> ctypes.CDLL:
    # NVRTC looks for its second library by name, which is found where it is loaded already.
    for beside in Path(library).parent.glob(_BUILTINS):
        ctypes.CDLL(str(beside))
    opened = ctypes.CDLL(library)
    opened.nvrtcGetErrorString.restype = ctypes.c_char_p
    return opened


def _strings(texts: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])


def _content(size_of: Any, read: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value)
    read(program, content)
    return content.raw


class NvrtcProcess:
    """A process that compiles one source at a time."""

    def __init__(self, library: str) -> None:
        """Start it with the NVRTC at this path."""
        command = [sys.executable, "-m", _MODULE, library]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=True
        )

    def compile(
        self, source: str, headers: Sequence[tuple[str, str]], options: Sequence[str]
    ) -> tuple[bytes, bytes]:
        """As `compile_source`.

        Raises:
            RefusedError: NVRTC refuses the source.
            OSError: the process has ended.
        """
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None
        assert answers is not None
        to.write(json.dumps([source, headers, options]).encode() + b"\n")
        to.flush()
        line = answers.readline()
        if not line:
            raise OSError("the process that compiles has ended")
        made, cubin, log = json.loads(line)
        content, said = _read(answers, cubin), _read(answers, log)
        if not made:
            raise RefusedError(said.decode(errors="replace"))
        return content, said

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # What was not read by it is lost.


def _read(file: Any, size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise OSError("the process that compiles has ended")
    return content


def _serve(library: str, requests: BinaryIO, answers: BinaryIO) -> None:
    for line in requests:
        source, headers, options = json.loads(line)
        try:
            made, (cubin, log) = True, compile_source(library, source, headers, options)
        except RefusedError as error:
            made, cubin, log = False, b"", str(error).encode()
        answers.write(json.dumps([made, len(cubin), len(log)]).encode() + b"\n" + cubin + log)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)
