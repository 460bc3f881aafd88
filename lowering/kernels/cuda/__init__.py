"""Contractions on a GPU: a kernel's body goes in, a config and the launches it stands for come out.

`problem.py` says what a kernel computes. A family of kernels has a folder, whose `launch.py` turns
one of its configs into launches of the device code beside it; what families share lies here, in
`direct/` and `tile_schedule/`, and as device code in `include/`.
"""
