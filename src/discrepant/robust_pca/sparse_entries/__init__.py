"""Robust PCA of sparse matrices of which only the stored entries are observed.

Nothing of the matrix's size is formed. Time and memory grow with the number of stored
entries and with the factors of the low-rank part.
"""
