"""The paper's image half: a network φ(θ) as one more parameterisation of the signal."""
