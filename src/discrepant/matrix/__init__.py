"""The fast solver for matrices: the paper's flow in a few passes over the data."""
