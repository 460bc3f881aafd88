"""Architectures of torchvision and timm through `torch.compile(backend="convir")`, on the CPU.

    python benchmarks/torch_architectures.py [NAME…] [--json FILE] [--threads N] [--batch N]
        [--size PIXELS]

Random weights and data. Images have `--size` pixels a side, or what a model insists on. Each must
agree with eager mode in f64, and its results must lie as eager mode's. A row has the share of calls
that run on convir, the pieces that they are compiled to, what is left and why, the largest error
over the largest value (and eager mode's in f32), the seconds of the first call, and milliseconds of
a call (the least of some, in turns with eager mode). Names are `torchvision/NAME` or `timm/NAME`.
The JSON file is written after each row.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from graph_models import calibrate

from convir.pytorch.graphs import reports

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE = 224
ROUNDS = 5
BOUND = 1e-4
"""Of the largest value."""
AMPLIFIED = 10
"""How many times as large as eager mode's an error may be: some random weights amplify roundings,
whoever's they are."""

TORCHVISION = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s"),
    *("googlenet", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "regnet_x_400mf"),
    *("regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0"),
    *("squeezenet1_1", "swin_t", "swin_v2_t", "vgg11_bn", "vit_b_32", "wide_resnet50_2"),
    *("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"),
)
TIMM = (
    *("coatnet_nano_rw_224", "convmixer_768_32", "convnextv2_atto", "cspresnet50", "dla34"),
    *("edgenext_xx_small", "efficientformer_l1", "fastvit_t8", "ghostnet_100", "hardcorenas_a"),
    *("hrnet_w18_small", "inception_v4", "levit_128s", "lcnet_050", "mixer_s32_224"),
    *("mobilenetv4_conv_small", "mobileone_s0", "mobilevit_xxs", "nf_resnet26", "nfnet_l0"),
    *("pit_ti_224", "poolformer_s12", "pvt_v2_b0", "repvgg_a0", "res2net50_26w_4s"),
    *("resmlp_12_224", "resnest14d", "rexnet_100", "selecsls42b", "skresnet18", "tf_mixnet_s"),
    *("twins_svt_small", "vit_tiny_patch16_224", "vovnet39a", "xception41", "xcit_nano_12_p16_224"),
)
SEGMENTATION = ("fcn", "deeplab", "lraspp")
NAMES = (*(f"torchvision/{name}" for name in TORCHVISION), *(f"timm/{name}" for name in TIMM))


def made(name: str, size: int, batch: int) -> tuple[torch.nn.Module, torch.Tensor]:
    """A model with random weights, as inference has it, and images for it."""
    package, _, which = name.partition("/")
    cast("Any", torch).manual_seed(0)
    if package == "timm":
        model: torch.nn.Module = import_module("timm").create_model(which, pretrained=False)
    else:
        models: Any = import_module("torchvision.models")
        options = {"weights_backbone": None} if which.startswith(SEGMENTATION) else {}
        model = models.get_model(which, weights=None, **options)
    for parameter in model.parameters():
        if not parameter.any():  # Heads begin as zeros, as all that they are multiplied with.
            torch.nn.init.normal_(parameter, std=0.02)
    settings: Any = getattr(model, "default_cfg", None) or {}
    fixed = settings.get("fixed_input_size", which.startswith("vit"))
    shape = settings.get("input_size", (3, SIZE, SIZE)) if fixed else (3, size, size)
    x = torch.randn(batch, *shape)
    calibrate(model, x if batch > 1 else torch.cat([x, torch.randn_like(x)]))
    return model.eval(), x


def largest_error(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> float:
    """Over the largest value."""
    return max(
        float((ours - exact).abs().max() / exact.abs().max())
        for ours, exact in zip(got, want, strict=True)
    )


def measured(name: str, size: int, batch: int) -> dict[str, Any]:
    """The row of one architecture."""
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    model, x = made(name, size, batch)
    before = len(reports())
    compiled: Any = cast("Any", torch).compile(model, backend="convir")
    leaves: Any = import_module("torch.utils._pytree").tree_leaves
    with torch.no_grad():
        plain = leaves(model(x))
        want = leaves(deepcopy(model).double()(x.double()))
        start = time.perf_counter()
        got = leaves(compiled(x))
        first = time.perf_counter() - start
        error, eager_error = largest_error(got, want), largest_error(plain, want)
        strides = [[each.stride() for each in found] for found in (got, plain)]
        times: dict[str, float] = {}
        for _ in range(ROUNDS):
            for which, function in (("convir", compiled), ("eager", model)):
                start = time.perf_counter()
                function(x)
                taken = (time.perf_counter() - start) * 1e3
                times[which] = min(taken, times.get(which, taken))
    found = reports()[before:]
    left = [f"{n} x {op}: {why}" for each in found for (op, why), n in each.left.most_common()]
    calls = sum(each.taken + each.left.total() for each in found)
    return {
        "name": name,
        "input": list(x.shape),
        "graphs": len(found),
        "calls": calls,
        "share": sum(each.taken for each in found) / max(calls, 1),
        "pieces": sum(each.pieces for each in found),
        "left": left,
        "error": error,
        "eager_error": eager_error,
        "agrees": error <= max(BOUND, AMPLIFIED * eager_error) and strides[0] == strides[1],
        "first_s": round(first, 2),
        **{f"{which}_ms": round(taken, 2) for which, taken in times.items()},
    }


def line(row: dict[str, Any]) -> str:
    """A row for who watches."""
    if "failure" in row:
        return f"{row['name']:40} {row['failure']}"
    disagrees = "" if row["agrees"] else "DISAGREES, "
    return (
        f"{row['name']:40} {disagrees}{row['share']:6.1%} of {row['calls']:>4} calls, "
        f"{row['pieces']} pieces, error {row['error']:.0e} ({row['eager_error']:.0e} eager), "
        f"first {row['first_s']:.1f} s, {row['convir_ms']:.1f} ms ({row['eager_ms']:.1f} eager)"
    )


def main() -> int:
    """Measure, print a table, and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=SIZE)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    versions = {"torch": torch.__version__}
    for package in ("torchvision", "timm"):
        if any(name.startswith(package) for name in options.names):
            versions[package] = import_module(package).__version__
    command = " ".join(("python benchmarks/torch_architectures.py", *sys.argv[1:]))
    environment: dict[str, Any] = versions | {"threads": options.threads, "command": command}
    rows: list[dict[str, Any]] = []
    for name in options.names:
        try:
            row = measured(name, options.size, options.batch)
        except Exception as error:
            row = {"name": name, "failure": f"{type(error).__name__}: {error}"[:300]}
        rows.append(row)
        print(line(row), flush=True)
        if options.json:
            environment["load"] = round(os.getloadavg()[0], 1)
            text = json.dumps({"environment": environment, "rows": rows}, indent=1)
            options.json.write_text(text + "\n")
    return 0 if all(row.get("agrees", False) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
