"""How the tiles of a product, and the reductions behind them, are divided over units of a GPU:
data-parallel, split-K and stream-K.

Enters: counts of tiles, of steps along the reduction, of units. Leaves: a `Partition`, and for each
unit the work it does. `include/schedule/partition.cuh` mirrors `schedule.py` on the device.
"""
