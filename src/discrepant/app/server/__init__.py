"""A page on one's own machine that heals what is dropped on it."""
