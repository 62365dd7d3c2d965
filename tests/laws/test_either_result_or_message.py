"""Unusual inputs and parameters give either a correct result or a clear message."""

import time
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest

from discrepant import (
    Cleaner,
    InputError,
    RobustPCA,
    clean,
    recover,
    restore,
    separate,
)
from discrepant.core.arrays import round_to_dtype
from discrepant.paper.synthetic import corrupted_matrix
from discrepant.table.io.table_file import read_matrix_file, read_table_file

Y = corrupted_matrix((20, 12), 1, 0.05, random_state=0).observed
IMAGE = np.add.outer(np.arange(16), np.arange(16)).astype(np.uint8)
TABLE = np.random.default_rng(0).normal(size=(30, 4))

INVALID = [
    *(None, True, -1, 0, 1.5, 2.0, np.nan, np.inf, 1e-320, 1e308, 10**400),
    *("x", "", [], {}, (), object(), np.array([1, 2]), b"x", 1j),
]


def fit(**settings):
    RobustPCA(**{"max_iter": 3, **settings}).fit(Y)


def run_descent(**settings):
    recover(Y, **{"max_iter": 2, **settings})


def restore_grey(**settings):
    restore(IMAGE, **{"quality": "fast", **settings})


def restore_colour(**settings):
    restore(np.stack([IMAGE] * 3, -1), quality="fast", **settings)


def clean_table(**settings):
    clean(TABLE, **settings)


def fit_cleaner(**settings):
    Cleaner(**settings).fit(TABLE).transform(TABLE)


def separate_frames(**settings):
    separate(np.stack([IMAGE] * 3), **settings)


PARAMETERS = {
    fit: """
        solver alpha psd tol max_iter polish noise fdr warm_start memory_limit n_jobs
        random_state
    """,
    run_descent: """
        solver alpha step init_scale width psd tol max_iter random_state callback
    """,
    restore_grey: "quality mask time_limit sensitivity gain read_noise",
    restore_colour: "channel_axis",
    clean_table: "fdr fill columns drop random_state",
    fit_cleaner: "fdr fill columns drop random_state",
    separate_frames: "stream",
}


@pytest.mark.parametrize(
    ("call", "name"),
    [(call, name) for call, names in PARAMETERS.items() for name in names.split()],
)
def test_parameters_of_the_wrong_type_are_refused_with_one_sentence(call, name):
    for value in INVALID:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                call(**{name: value})
            except InputError as error:
                assert "\n" not in str(error)
                assert len(str(error)) < 300
    with pytest.raises(InputError):
        call(**{name: object()})


@pytest.mark.parametrize("noise", [1e-320, 1e-30, 1e308])
def test_noise_below_or_above_the_range_of_the_data_is_refused(noise):
    with pytest.raises(InputError, match="noise of"):
        RobustPCA(noise=noise).fit(Y)


HEADERS = {
    "country,2001,2002\nFrance,1.5,2\nSpain,3,4\n": ["country", "2001", "2002"],
    ",400.5,401.0\ns1,1.5,2\ns2,3,4\n": ["400.5", "401.0"],
    "id,2001,2002\n1,1.5,2\n2,3,4\n": ["id", "2001", "2002"],
    "2001,2002,2003\n1.5,2,1\n3,4,0\n": ["2001", "2002", "2003"],
    "2024-01-01,7,8\n2024-01-02,1.5,2\n": ["1", "2", "3"],
    "north,7,8\nsouth,1.5,2\nnorth,3,4\n": ["1", "2", "3"],
    "7,8\n1.5,\n3,4\n": ["1", "2"],
}


@pytest.mark.parametrize("text", HEADERS)
def test_headers_are_recognised(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text)
    file = read_table_file(path)
    assert list(file.table.columns) == HEADERS[text]
    assert len(file.table) == text.count("\n") - file.header
    assert ("first line" in file.labels) == file.header


@pytest.mark.parametrize(
    "text",
    [
        "France,7,3,9\nSpain,1.5,2,1\nItaly,3,4,0\n",
        "r1,7,8\nr2,1.5,2\nr3,3,4\n",
        "sample,400.5,401.0\ns1,1.5,2\ns2,3,4\n",
    ],
)
def test_ambiguous_headers_are_refused(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text)
    for reader in (read_matrix_file, read_table_file):
        with pytest.raises(InputError, match="header=True or header=False"):
            reader(path)
    width = text.split("\n")[0].count(",")
    assert read_matrix_file(path, header=False).numeric_values().shape == (3, width)
    first = text.split("\n")[0].split(",")[1:]
    assert list(read_matrix_file(path, header=True).table.columns) == first


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n1,234;5.5\n2,345;6.5\n", [[1234, 5.5], [2345, 6.5]]),
        ("a;b\n1,234;5,5\n2,345;6\n", [[1.234, 5.5], [2.345, 6]]),
        ("a;b\n1,234,567;1\n2,345;6\n", [[1234567, 1], [2345, 6]]),
        ("a;b\n0,234;1\n2,345;6\n", [[0.234, 1], [2.345, 6]]),
    ],
)
def test_decimal_commas_and_thousands_are_distinguished(tmp_path, text, values):
    for name, mark in (("a.csv", ";"), ("a.tsv", "\t")):
        (tmp_path / name).write_text(text.replace(";", mark))
        assert np.array_equal(
            read_matrix_file(tmp_path / name).numeric_values(), values
        )


def test_ambiguous_decimal_marks_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1,234;5\n2,345;6\n")
    for reader in (read_matrix_file, read_table_file):
        with pytest.raises(InputError, match=r"1\.234 or 1234; choose"):
            reader(path)
    assert read_matrix_file(path, decimal=",").numeric_values()[0, 0] == 1.234
    assert read_matrix_file(path, decimal=".").numeric_values()[0, 0] == 1234


def test_twenty_thousand_columns_are_read(tmp_path):
    path = tmp_path / "a.csv"
    names = ",".join(f"column{i}" for i in range(20_000))
    path.write_text(f"{names}\n{','.join(['1'] * 20_000)}\n")
    assert read_matrix_file(path).numeric_values().shape == (1, 20_000)


def test_a_masked_array_of_objects_keeps_its_mask():
    mask = np.zeros(Y.shape, bool)
    mask[2, 3] = True
    masked = np.ma.MaskedArray(Y.astype(object), mask=mask)
    model = RobustPCA(random_state=0).fit(masked)
    for part in (model.residual_, recover(masked).residual):
        assert np.array_equal(np.isnan(part), mask)


def test_masked_frames_and_torch_frames_are_separated():
    frames = np.stack([IMAGE] * 6)
    frames[3, 4, 4] = 255
    plain = separate(frames)
    mask = frames == 255
    masked = separate(np.ma.MaskedArray(frames, mask))
    assert not masked.foreground[3, 4, 4]
    assert np.abs(masked.background[3][4, 4] - 8) < 2
    torch = pytest.importorskip("torch")
    result = separate(torch.from_numpy(frames))
    assert np.array_equal(result.foreground, plain.foreground)
    with pytest.raises(InputError, match="cannot be read as an array"):
        separate(torch.ones(4, 16, 16, requires_grad=True))


def test_dates_of_polars_are_refused():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"day": pd.date_range("2020-01-01", periods=5), "x": 1.0})
    with pytest.raises(InputError, match="dates"):
        RobustPCA().fit(frame)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.uint16])
def test_rounding_clips_to_the_integer_range(dtype):
    limits = np.iinfo(dtype)
    values = np.array([-1e30, float(limits.min), 3.4, float(limits.max), 1e30])
    expected = [limits.min, limits.min, 3, limits.max, limits.max]
    assert round_to_dtype(values, np.dtype(dtype)).tolist() == expected


def test_values_near_the_integer_limit_do_not_overflow():
    white = np.full((24, 24), np.iinfo(np.int64).max)
    white[::2] -= 1 << 40
    bad = np.zeros(white.shape, bool)
    bad[7, 9] = True
    assert restore(white, mask=bad, quality="fast").image.min() > 1 << 62


def test_the_score_of_huge_rows_does_not_overflow():
    model = RobustPCA(random_state=0).fit(Y)
    huge = Y / np.abs(Y).max() * 1.7e308
    assert np.isclose(model.score(huge), model.score(Y), atol=1e-6)


@pytest.mark.parametrize("columns", [0, [1, 2]])
def test_a_cleaner_of_some_columns_scores_new_rows(columns):
    cleaner = Cleaner(columns=columns).fit(TABLE)
    result = cleaner.transform(TABLE[:5])
    assert result.shape == (5, 4)


def test_memory_mapped_models_give_the_same_results(tmp_path):
    large = corrupted_matrix((600, 400), 3, 0.1, random_state=0).observed
    model = RobustPCA(random_state=0).fit(large)
    joblib.dump(model, tmp_path / "model")
    again = joblib.load(tmp_path / "model", mmap_mode="r")
    assert np.array_equal(again.sparse_, model.sparse_)
    assert again.certificate_ == model.certificate_


def test_messages_do_not_print_the_data():
    for data in (np.arange(999.0), Y.astype(complex)):
        with pytest.raises(InputError) as caught:
            RobustPCA().fit(data)
        assert "array" not in str(caught.value).split("Reshape")[0].replace(
            " array", ""
        )
        assert len(str(caught.value)) < 400


YEARS = {
    "country,region,1960,1961,1962": True,
    "Country,Region,1960,1970,1975": True,
    "country,,1960,1961,1962": True,
    "1960,1961,1962,1963,1964": True,
    "Norway,South,9.5,7.1,8.2": False,
    "Norway,North,9,7,8": False,
    "Norway,Centre,4,8,9": None,
}
COUNTRIES = "Spain Italy Peru Chad Mali Oman Cuba Fiji Iran Iraq Togo Laos".split()


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
@pytest.mark.parametrize("first", YEARS)
def test_years_after_columns_of_text_are_labels(tmp_path, first, suffix):
    rng = np.random.default_rng(0)
    texts = [
        [country, ("North", "South")[k % 2]] for k, country in enumerate(COUNTRIES)
    ]
    if first[0].isdigit():
        texts = [[f"{a:.3f}", f"{b:.3f}"] for a, b in rng.normal(8, 3, (12, 2))]
    numbers = [[f"{value:.3f}" for value in row] for row in rng.normal(8, 3, (12, 3))]
    rows = [",".join(a + b) for a, b in zip(texts, numbers, strict=True)]
    lines = [first, *rows]
    path = tmp_path / f"a.{suffix}"
    if suffix == "csv":
        path.write_text("\n".join(lines) + "\n")
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for line in lines:
            cells = [float(c) if c[:1].isdigit() else c for c in line.split(",")]
            book.active.append([int(c) if c in range(3000) else c for c in cells])
        book.save(path)
    if YEARS[first] is None:
        with pytest.raises(InputError, match="header=True or header=False"):
            read_table_file(path)
    else:
        assert len(read_table_file(path).table) == 12 + (not YEARS[first])


def test_an_open_quote_is_named_in_linear_time(tmp_path):
    path = tmp_path / "a.csv"
    lines = ["a,b,c", *(f"{k},x{k},{k}.5" for k in range(100_000))]
    lines[50] = '50,"x50,50.5'
    path.write_text("\n".join(lines) + "\n")
    start = time.perf_counter()
    with pytest.raises(InputError, match="quote in line 51 that is never closed"):
        read_table_file(path)
    assert time.perf_counter() - start < 5  # quadratic time took a minute
