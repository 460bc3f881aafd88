"""The linalg dialect as convir reads it: xDSL's ops, and ours in place of some."""
