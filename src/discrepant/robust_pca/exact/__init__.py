"""The exact solver: implicit steps along the paper's limit flow, then a polish."""
