"""Linear maps A from a matrix to measurements, with their adjoints."""
