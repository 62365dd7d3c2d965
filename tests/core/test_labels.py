"""Labels come out as they went in: pandas, polars and xarray."""

import pickle

import numpy as np
import pytest

from discrepant import Cleaner, InputError, RobustPCA, clean, restore
from discrepant.paper.synthetic import corrupted_matrix

Y = corrupted_matrix((60, 20), rank=2, fraction=0.05, random_state=0).observed


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


def test_a_dataset_is_a_table_of_its_variables():
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    height, place = rng.normal(size=(12, 10)), rng.normal(size=(2, 12, 10))
    grid = xr.Dataset(
        {
            "t": (("time", "station"), height + 0.1 * place[0], {"units": "K"}),
            "p": (("station", "time"), (2 * height + 0.1 * place[1]).T),
            "n": (("time", "station"), np.round(9 * height).astype(np.int16)),
            "kind": (("time", "station"), np.full((12, 10), "fine")),
        },
        coords={"time": np.arange(12) * 0.5, "station": list("abcdefghij")},
        attrs={"source": "made"},
    )
    grid["t"][3, 4] += 9
    found = clean(grid)
    assert found.flagged[["row", "column"]].values.tolist() == [[(1.5, "e"), "t"]]
    assert found.table["t"].attrs == {"units": "K"}
    assert found.table["n"].dtype == np.int16
    assert abs(found.table["t"][3, 4] - height[3, 4]) < 1
    fixed = found.table.copy(deep=True)
    fixed["t"][3, 4] = grid["t"][3, 4]
    xr.testing.assert_identical(fixed, grid)
    assert "flagged" in found._repr_html_()
    with pytest.raises(InputError, match="same dimensions"):
        clean(grid.assign(alone=("time", np.arange(12))))
    cleaner = Cleaner().fit(grid)
    assert list(cleaner.feature_names_in_) == list(grid.data_vars)
    xr.testing.assert_identical(cleaner.transform(grid), found.table)
    with pytest.raises(InputError, match="feature names"):
        cleaner.transform(grid.rename(t="other"))


def test_a_data_array_is_a_table():
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(80, 1)) + 0.1 * rng.normal(size=(80, 5))).astype("f4")
    values[7, 2] += 9
    grid = xr.DataArray(values, dims=("when", "what"), coords={"what": list("abcde")})
    found = clean(grid)
    assert found.flagged[["row", "column"]].values.tolist() == [[7, "c"]]
    assert found.table.dtype == np.float32
    xr.testing.assert_identical(found.table.where(~found.mask.to_numpy(), grid), grid)
    cleaned = Cleaner().fit_transform(grid.assign_attrs(units="K"))
    xr.testing.assert_identical(cleaned, found.table.assign_attrs(units="K"))
    for work in (clean, Cleaner().fit):
        with pytest.raises(InputError, match="to_dataset"):
            work(grid.expand_dims("run"))


@pytest.mark.parametrize(
    ("dims", "asked"),
    [
        (("y", "x"), {}),
        (("band", "y", "x"), {"channel_axis": 0}),
        (("time", "y", "x"), {"axes": "TYX"}),
    ],
)
def test_a_data_array_is_an_image(dims, asked):
    xr = pytest.importorskip("xarray")
    image = np.add.outer(np.arange(40), np.arange(40)).astype(np.uint8)
    image = image if len(dims) == 2 else np.stack([image] * 3)
    spoiled = image.copy()
    spoiled[..., ::7, ::5] = 255
    grid = xr.DataArray(
        spoiled, dims=dims, coords={"x": np.arange(40) * 0.1}, attrs={"units": "K"}
    )
    found = restore(grid, quality="fast")
    plain = restore(spoiled, quality="fast", **asked)
    np.testing.assert_array_equal(found.image, plain.image)
    assert found.image.attrs == found.corruption.attrs == {"units": "K"}
    assert found.mask.attrs == {}
    for part in (found.image, found.mask, found.probability):
        xr.testing.assert_equal(part.coords.to_dataset(), grid.coords.to_dataset())
    assert found._repr_html_().count("<img") == 3
    marks = xr.DataArray(np.ones((40, 40), bool), dims=("x", "y"))
    marks[1:] = False
    again = restore(grid, quality="fast", mask=marks)  # in the image's order of axes
    assert again.mask.values[..., 0].all()
