"""The paper's figures: one module each, with a Config, `run` and `plot`."""
