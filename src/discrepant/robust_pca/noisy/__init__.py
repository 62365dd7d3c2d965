"""The fit with noise on every entry: Y = L + S + N, with rank and noise estimated."""
