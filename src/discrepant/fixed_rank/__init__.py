"""Low-rank matrices fitted to linear measurements, component by component."""
