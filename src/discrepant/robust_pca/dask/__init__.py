"""Robust PCA of Dask arrays: pure tasks over blocks, the state on the client."""
