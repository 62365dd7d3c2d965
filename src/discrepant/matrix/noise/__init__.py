"""Noise on every entry: Y = L + S + N, told neither rank, nor noise, nor support."""
