"""Contractions on a GPU: a kernel's body goes in, a config and the launches it stands for come out.

`read.py` says what a kernel computes, `templates.py` lists who computes it, best first, and each
template's module turns one of its configs into launches of a `.cuh` template.
"""
