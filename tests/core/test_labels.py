"""Results have the labels of the data: pandas, polars and xarray."""

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


def test_datasets_are_cleaned_as_tables_of_their_variables():
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    level, noise = rng.normal(size=(12, 10)), rng.normal(size=(2, 12, 10))
    grid = xr.Dataset(
        {
            "t": (("time", "station"), level + 0.1 * noise[0], {"units": "K"}),
            "p": (("station", "time"), (2 * level + 0.1 * noise[1]).T),
            "n": (("time", "station"), np.round(9 * level).astype(np.int16)),
            "kind": (("time", "station"), np.full((12, 10), "fine")),
        },
        coords={"time": np.arange(12) * 0.5, "station": list("abcdefghij")},
        attrs={"source": "synthetic"},
    )
    grid["t"][3, 4] += 9
    result = clean(grid)
    assert result.flagged[["row", "column"]].values.tolist() == [[(1.5, "e"), "t"]]
    assert result.table["t"].attrs == {"units": "K"}
    assert result.table["n"].dtype == np.int16
    assert abs(result.table["t"][3, 4] - level[3, 4]) < 1
    fixed = result.table.copy(deep=True)
    fixed["t"][3, 4] = grid["t"][3, 4]
    xr.testing.assert_identical(fixed, grid)
    assert "flagged" in result._repr_html_()
    with pytest.raises(InputError, match="same dimensions"):
        clean(grid.assign(alone=("time", np.arange(12))))
    cleaner = Cleaner().fit(grid)
    assert list(cleaner.feature_names_in_) == list(grid.data_vars)
    xr.testing.assert_identical(cleaner.transform(grid), result.table)
    with pytest.raises(InputError, match="feature names"):
        cleaner.transform(grid.rename(t="other"))


def test_data_arrays_are_cleaned_as_tables():
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(80, 1)) + 0.1 * rng.normal(size=(80, 5))).astype("f4")
    values[7, 2] += 9
    grid = xr.DataArray(
        values, dims=("time", "sensor"), coords={"sensor": list("abcde")}
    )
    result = clean(grid)
    assert result.flagged[["row", "column"]].values.tolist() == [[7, "c"]]
    assert result.table.dtype == np.float32
    xr.testing.assert_identical(result.table.where(~result.mask.to_numpy(), grid), grid)
    cleaned = Cleaner().fit_transform(grid.assign_attrs(units="K"))
    xr.testing.assert_identical(cleaned, result.table.assign_attrs(units="K"))
    for call in (clean, Cleaner().fit):
        with pytest.raises(InputError, match="to_dataset"):
            call(grid.expand_dims("run"))


@pytest.mark.parametrize(
    ("dims", "options"),
    [
        (("y", "x"), {}),
        (("band", "y", "x"), {"channel_axis": 0}),
        (("time", "y", "x"), {"axes": "TYX"}),
    ],
)
def test_data_arrays_are_restored_as_images(dims, options):
    xr = pytest.importorskip("xarray")
    image = np.add.outer(np.arange(40), np.arange(40)).astype(np.uint8)
    image = image if len(dims) == 2 else np.stack([image] * 3)
    corrupted = image.copy()
    corrupted[..., ::7, ::5] = 255
    grid = xr.DataArray(
        corrupted, dims=dims, coords={"x": np.arange(40) * 0.1}, attrs={"units": "K"}
    )
    result = restore(grid, quality="fast")
    plain = restore(corrupted, quality="fast", **options)
    np.testing.assert_array_equal(result.image, plain.image)
    assert result.image.attrs == result.corruption.attrs == {"units": "K"}
    assert result.mask.attrs == {}
    for part in (result.image, result.mask, result.probability):
        xr.testing.assert_equal(part.coords.to_dataset(), grid.coords.to_dataset())
    assert result._repr_html_().count("<img") == 3
    known_bad = xr.DataArray(np.ones((40, 40), bool), dims=("x", "y"))
    known_bad[1:] = False
    again = restore(
        grid, quality="fast", mask=known_bad
    )  # in the image's order of axes
    assert again.mask.values[..., 0].all()
