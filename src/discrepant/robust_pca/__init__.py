"""Robust PCA, Y = L + S, solved in a few passes over the data."""
