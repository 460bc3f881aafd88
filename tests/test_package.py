"""The root package: what it offers, when it imports that, and its version."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

import convir

pytestmark = pytest.mark.fast

LOADED = "import sys, convir; print([name for name in sys.modules if name.startswith('convir')])"


def test_names_are_listed_before_they_are_loaded() -> None:
    script = f"{LOADED}; print(set(convir.__all__) <= set(dir(convir)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['convir']\nTrue\n"


def test_every_name_is_there() -> None:
    assert all(hasattr(convir, name) for name in convir.__all__)
    assert convir.compile is import_module("convir.api.compile").compile


def test_the_installed_version_is_that_of_the_module() -> None:
    assert version("convir") == convir.__version__
