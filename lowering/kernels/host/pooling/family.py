"""`pooling`: what the registry knows of the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import BlockArgument

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import POOLING as NAME
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.host.launch import Argument, HostLaunch, Stage
from convir.lowering.kernels.host.pooling.config import CONFIG
from convir.lowering.kernels.host.pooling.kernel import MAX_STACK, PoolKernel, stack_bytes
from convir.lowering.kernels.host.pooling.predict import predict
from convir.lowering.kernels.host.pooling.problem import Pool, read_pool

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget


def _read(body: KernelBody, cpu: CpuTarget) -> Pool | Refusal:
    if body.overlaps:
        return Refusal("its result shares memory with its arguments")
    block = body.function.body.block
    returned = block.last_op
    assert returned is not None
    pool = read_pool(list(block.ops), list(returned.operands), _argument)
    if not isinstance(pool, Refusal) and stack_bytes(pool, cpu.lanes(32)) > MAX_STACK:
        return Refusal("its rows are too long for the stack")
    return pool


def _argument(value: SSAValue) -> int:
    if not isinstance(value, BlockArgument):
        raise TypeError("a kernel reads what is neither its argument nor computed in it")
    return value.index


def _launch(pool: Pool, config: OnlyConfig, cpu: CpuTarget) -> HostLaunch:
    del config
    kernel = PoolKernel(pool, cpu)
    read = (pool.argument, *(table.argument for table in pool.tables))
    buffers = (*(Argument("input", index) for index in read), Argument("output", 0))
    work = pool.planes * pool.rows.outputs * pool.columns.outputs * pool.inner
    work *= pool.rows.taps + pool.columns.taps
    return HostLaunch(kernel, (Stage(kernel.entry, kernel.items, buffers, work),))


POOL = Family(
    name=NAME,
    sees=Pool,
    config=OnlyConfig,
    reads=_read,
    plan=lambda pool, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda pool, config, cpu: predict(pool, cpu),
    launches=_launch,
    is_total=True,
)
