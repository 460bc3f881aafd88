"""Arguments in, text out: `convir-opt`, `convir-run` and their diagnostics."""
