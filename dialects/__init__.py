"""What a graph may say.

Enters: nothing but xDSL's own dialects. Leaves: the dialects and the parser every other folder
uses (`context.new_context`, `context.parse_module`), the read-only views of ops that passes ask
(`structured`, `contraction`, `slices`), and one home for window and shape arithmetic.
"""
