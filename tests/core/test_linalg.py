"""Laws of the linear algebra that all solvers share."""

import numpy as np
import pytest

from discrepant.core.linalg import svd


def test_a_decomposition_that_does_not_converge_falls_back(monkeypatch):
    Z = np.random.default_rng(0).standard_normal((7, 5))
    expected = np.linalg.svd(Z, compute_uv=False)

    def failing(*args, **options):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", failing)
    U, s, Vt = svd(Z)
    np.testing.assert_allclose(s, expected)
    np.testing.assert_allclose((U * s) @ Vt, Z)
    with pytest.raises(np.linalg.LinAlgError):
        svd(np.full((2, 2), np.nan))
