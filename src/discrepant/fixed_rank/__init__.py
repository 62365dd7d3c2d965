"""Matrices of fixed rank, fitted to linear measurements component by component."""
