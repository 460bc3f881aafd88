"""What tools tell their user: diagnostics, tables, plots."""
