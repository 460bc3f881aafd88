"""`planar`: what the registry knows of fused chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import PLANAR
from convir.lowering.kernels.host.family import Family
from convir.lowering.kernels.host.fused_chain.config import ChainConfig, legal_tiles
from convir.lowering.kernels.host.fused_chain.launch import launch
from convir.lowering.kernels.host.fused_chain.predict import predict
from convir.lowering.kernels.host.fused_chain.problem import Chain, read_chain

if TYPE_CHECKING:
    from convir.lowering.kernels.host.launch import HostLaunch
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> Chain | Refusal:
    del cpu
    return read_chain(body.function)


def _candidates(chain: Chain, cpu: CpuTarget) -> tuple[ChainConfig, ...]:
    del chain
    return ChainConfig(), *(ChainConfig(tile) for tile in legal_tiles(cpu))


def _launch(chain: Chain, config: ChainConfig, cpu: CpuTarget) -> HostLaunch | Refusal:
    tile = config.on(cpu)
    if tile not in legal_tiles(cpu):
        return Refusal(f"'{config}' is not a config of planar kernels on this CPU")
    return launch(chain, tile, cpu)


FUSED_CHAIN = Family(
    name=PLANAR,
    sees=Chain,
    config=ChainConfig,
    reads=_read,
    plan=_candidates,
    parse=ChainConfig.parse,
    time=lambda chain, config, cpu: predict(chain.reading, config.on(cpu), cpu),
    launches=_launch,
)
