"""
A matrix from corrupted random measurements
===========================================

Recover a matrix from random measurements, some of them wrong, with a certificate.
"""

from pathlib import Path

import numpy as np

from discrepant import Sensing, recover
from discrepant.core.plotting import plot_decomposition
from discrepant.paper.synthetic import relative_error

rng = np.random.default_rng(0)
n, rank, measurements = 20, 2, 300
U = rng.standard_normal((n, rank))
X = U @ U.T
operator = Sensing(rng.standard_normal((measurements, n, n)))
y = operator.forward(X)
wrong = rng.choice(measurements, 45, replace=False)
y[wrong] += 100 * rng.standard_normal(len(wrong))

result = recover(y, operator, psd=True, random_state=0)
print(f"{result.status}\n{result.certificate}")
print(f"{result.n_applications} applications of the operator and its adjoint")
print(f"error: {relative_error(result.signal, X):.1e}")

picture = Path("matrix_sensing.png")
plot_decomposition(operator.adjoint(y), result.signal, result.signal - X, X).savefig(
    picture
)
print(f"picture: {picture}")
