"""Sound through neural amp models, for `convir-run`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convir.api.compile import DEFAULT_PIPELINE
from convir.cli.arguments.parser import UsageError
from convir.cli.files.file_suffixes import NPY_SUFFIX, check_suffix
from convir.cli.files.streams import EXIT_OK, check_writable, write_output
from convir.runtime.devices import HOST

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from convir.api.stream import Stream

    Sound = npt.NDArray[np.float32]

WAV_SUFFIX = ".wav"
_STEP_FRAMES = 4096
"""Frames between two looks at the progress bar."""


def run_stream(options: Namespace, name: str) -> int:
    """Send the sound `--input` through a model, and write `--output`; returns the exit status.

    Raises:
        DiagnosticError: the model cannot be read.
        UsageError: an option does not go with a stream, or a file cannot be used.
    """
    from convir.cli.jobs.compiled_function import on_the_host  # noqa: PLC0415  (takes a while to import)

    if len(options.inputs) != 1 or len(options.outputs) != 1:
        raise UsageError(f"{name}: a stream has one --input and one --output: .wav or .npy files")
    unused = (options.passes, options.function, options.workspace_bytes, options.trace)
    if options.check or any(option is not None for option in unused):
        refused = "--check, -p, --function, --workspace-bytes and --trace"
        raise UsageError(f"{name}: {refused} are not for streams")
    source, target = (value.removeprefix("@") for value in (*options.inputs, *options.outputs))
    for path in (source, target):
        check_suffix(path, (NPY_SUFFIX, WAV_SUFFIX))
    check_writable(target)
    sound, rate = _read(source)
    model = _model(options, name)
    if sound.shape[0] != model.channels:
        raise UsageError(f"{source}: has {sound.shape[0]} channels, the model {model.channels}")
    if rate and model.sample_rate not in (None, rate):
        # Nothing here resamples: the model would be heard at another pitch.
        wanted = f"{model.sample_rate:g}"
        raise UsageError(f"{source}: has {rate} frames a second, the model is made for {wanted}")
    heard = import_module("numpy").empty((model.output_channels, sound.shape[1]), sound.dtype)
    for begin in _shown(range(0, sound.shape[1], _STEP_FRAMES), name):
        piece = slice(begin, begin + _STEP_FRAMES)
        heard[:, piece] = on_the_host(model.process(sound[:, piece]))
    _write(target, heard, rate)
    return EXIT_OK


def _model(options: Namespace, name: str) -> Stream:
    """The model of the file `name`, on the device that was asked for."""
    from convir.api.stream import stream  # noqa: PLC0415  (as above)
    from convir.runtime.cuda.toolkit import NoGpuError  # noqa: PLC0415  (as above)

    pipeline: str = options.pipeline or DEFAULT_PIPELINE
    device: str = options.device or HOST
    try:
        return stream(name, size=options.model_size, pipeline=pipeline, device=device)
    except (NoGpuError, ValueError) as error:
        raise UsageError(f"--device {device}: {error}") from error


def _shown(begins: range, name: str) -> Iterator[int]:
    """The steps, with a progress bar on a terminal."""
    from rich.console import Console  # noqa: PLC0415  (only where something streams)
    from rich.progress import track  # noqa: PLC0415

    console = Console(stderr=True)
    hidden = not sys.stderr.isatty()
    return iter(track(begins, Path(name).name, console=console, disable=hidden, transient=True))


def _read(path: str) -> tuple[Sound, int]:
    """f32[channels, frames] and the frames a second; 0 for a .npy, which does not say them."""
    np: Any = import_module("numpy")
    try:
        if path.endswith(WAV_SUFFIX):
            frames, rate = _soundfile().read(path, dtype="float32", always_2d=True)
            return np.ascontiguousarray(frames.T), rate
        sound = np.load(path, allow_pickle=False)
    except (OSError, ValueError, RuntimeError, EOFError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if sound.ndim not in (1, 2) or sound.dtype != np.float32:
        raise UsageError(f"{path}: is {sound.dtype}{list(sound.shape)}, not float32[channels, n]")
    return np.atleast_2d(sound), 0


def _write(path: str, sound: Sound, rate: int) -> None:
    """As the file's suffix says; a .npy of one channel has one dimension."""
    from convir.cli.arguments.array_values import npy_bytes  # noqa: PLC0415

    if not path.endswith(WAV_SUFFIX):
        write_output(path, npy_bytes(sound[0] if len(sound) == 1 else sound))
        return
    if not rate:
        raise UsageError(f"{path}: an input in .npy does not say how many frames a second are")
    _soundfile().write(path, sound.T, rate, subtype="FLOAT")


def _soundfile() -> Any:
    try:
        return import_module("soundfile")
    except (ImportError, OSError) as error:
        advice = "pip install 'convir[sound]', which has soundfile"
        raise UsageError(f".wav files need the extra 'sound' ({error}): {advice}") from error
