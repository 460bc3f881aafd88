"""A lit format for short runs: tools in Python are forks of a process that has imported them.

Starting a tool is mostly importing. A fork has its own memory, streams, arguments and environment,
as a process of its own has, so that tests see no difference but the time.
"""
# pyright: basic

from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn
from unittest import mock

import lit.formats

TOOLS = {
    "convir-import": "convir.cli.import_",
    "convir-opt": "convir.cli.opt",
    "convir-run": "convir.cli.run",
    "filecheck": "filecheck.main",
}
"""The module of each tool; its `main` is what the installed script calls."""

IMPORTED = ("convir.dialects", "convir.passes", "convir.lowering")
"""The packages whose modules are all imported before the first fork."""

FIRST_OTHER_FILE = 3
"""The file descriptor after those of the standard streams."""


class ForkedTools(lit.formats.ShTest):
    """lit's shell tests, but for how the tools are started."""

    def execute(self, test, litConfig):  # noqa: N803  (lit's name, and lit has no types)
        """Run one file."""
        with mock.patch("subprocess.Popen", partial(start, subprocess.Popen)):
            return super().execute(test, litConfig)


def import_tools() -> None:
    """Import what tools need, so that forks find it and garbage collection passes it by."""
    from convir.dialects.compat import startup  # noqa: PLC0415  (before all that it speeds up)

    startup.install()
    for name in (*TOOLS.values(), "convir.cli.jobs.opt_job", "convir.cli.jobs.run_job"):
        import_module(name)
    for name in IMPORTED:
        for module in walk_packages(import_module(name).__path__, f"{name}."):
            import_module(module.name)
    gc.freeze()


def start(
    popen: type[subprocess.Popen[Any]], args: list[str], **options: Any
) -> subprocess.Popen[Any]:
    """What `subprocess.Popen` does, with a fork instead of a new program for our tools."""
    executable = Path(options.get("executable") or args[0])
    if executable.parent == Path(sys.executable).parent and executable.name in TOOLS:
        options["preexec_fn"] = partial(become, executable.name, args, options.get("env"))
    return popen(args, **options)


def become(tool: str, args: list[str], environment: dict[str, str] | None) -> NoReturn:
    """In a new process, whose standard streams and folder are set: be the tool, and end."""
    os.closerange(FIRST_OTHER_FILE, os.sysconf("SC_OPEN_MAX"))
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    gc.disable()
    sys.argv = list(args)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    warnings.filterwarnings("error", category=DeprecationWarning, module="convir")
    status = 1
    try:
        status = import_module(TOOLS[tool]).main() or 0
    except SystemExit as end:
        status = int(end.code or 0)
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
