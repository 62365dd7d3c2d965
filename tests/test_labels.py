"""Labels come out as they went in: pandas, polars and xarray."""

import pickle

import numpy as np
import pytest

from discrepant import RobustPCA
from discrepant.paper.problems import corrupted_matrix

Y = corrupted_matrix((60, 20), rank=2, share=0.05, random_state=0).observed


def test_xarray_keeps_coordinates_and_attributes():
    xr = pytest.importorskip("xarray")
    data = xr.DataArray(
        Y,
        dims=("time", "sensor"),
        coords={"time": np.arange(60) * 0.5, "sensor": [f"s{k}" for k in range(20)]},
        attrs={"units": "K"},
        name="temperature",
    )
    pca = pickle.loads(pickle.dumps(RobustPCA(random_state=0).fit(data)))
    for part in (pca.low_rank_, pca.sparse_, pca.outliers_):
        assert part.dims == data.dims
        assert part.name == "temperature"
        assert part.attrs == {"units": "K"}
        xr.testing.assert_equal(part.coords.to_dataset(), data.coords.to_dataset())
    np.testing.assert_allclose(
        pca.low_rank_, RobustPCA(random_state=0).fit(Y).low_rank_, atol=1e-10
    )
    assert isinstance(pca.transform(data), np.ndarray)


def test_polars_stays_polars():
    pl = pytest.importorskip("polars")
    data = pl.DataFrame(Y, schema=[f"c{k}" for k in range(20)])
    pca = RobustPCA(random_state=0).fit(data)
    assert isinstance(pca.low_rank_, pl.DataFrame)
    assert pca.low_rank_.columns == data.columns
    np.testing.assert_allclose(
        pca.low_rank_, RobustPCA(random_state=0).fit(Y).low_rank_, atol=1e-10
    )
