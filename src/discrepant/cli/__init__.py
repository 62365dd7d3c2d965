"""Command line: one module per command; arguments in, results printed."""
