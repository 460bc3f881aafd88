"""Tuning records: what the configs of a kernel took on a machine, measured once and kept as text.

What enters: a machine and the signature of a contraction. What leaves: its record, if there is one.
The files beside this module are shipped: one per machine, a JSON object a line.
"""
