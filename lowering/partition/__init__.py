"""How the tiles of a product, and the reductions behind them, are divided over units of a device.

Enters: counts of tiles, of steps along the reduction, of units. Leaves: a `Partition`, and for each
unit the work it does. Devices mirror `schedule.py`; here is nothing that knows one of them.
"""
