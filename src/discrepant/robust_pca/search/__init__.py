"""Search for exact fits beyond the convex program, and the choice between fits."""
