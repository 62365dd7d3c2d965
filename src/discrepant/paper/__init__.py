"""The method as published: gradient descent with two learning rates, and baselines."""
