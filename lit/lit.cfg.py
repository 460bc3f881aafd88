"""lit configuration: `lit lit` from the project's root, with the tools of the running Python.

`lit -D forked lit` imports the tools once and forks them: quicker, and less like a shell.
"""
# pyright: basic, reportUndefinedVariable=false

import sys
from pathlib import Path

import lit.formats

config.name = "convir"  # noqa: F821  (lit injects `config`)
config.test_format = lit.formats.ShTest()  # noqa: F821
config.suffixes = [".mlir", ".test"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
bin_dir = str(Path(sys.executable).parent)
config.environment["PATH"] = bin_dir + ":" + config.environment["PATH"]  # noqa: F821
config.environment["PYTHONWARNINGS"] = "error::DeprecationWarning:convir"  # noqa: F821
# The package is that of the tree which the tests lie in, whichever one is installed.
link = Path(__file__).resolve().parent.parent / ".link"
config.environment["PYTHONPATH"] = str(link)  # noqa: F821

if "forked" in lit_config.params:  # noqa: F821  (injected too)
    sys.path[:0] = [str(link), str(link.parent / "lit")]
    import forked_tools

    forked_tools.import_tools()
    config.test_format = forked_tools.ForkedTools()  # noqa: F821

sys.path.insert(0, str(link))
from convir.lowering.kernels.target import named  # noqa: E402

# Costs that a pass is told for a GPU, as `convir.compile` tells them.
config.substitutions.append(("%h200-costs", str(named("h200").costs)))  # noqa: F821
