"""Tables: what is read is written back with its labels and format."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from discrepant import InputError
from discrepant.table.io.table_file import read_matrix_file

VALUES = np.array([[1.5, 2.0, np.nan], [4.0, 5.25, 6.0]])
CSV = {
    "bare": "1.5,2.0,\n4.0,5.25,6.0\n",
    "header": "a,b,c\n1.5,2.0,\n4.0,5.25,6.0\n",
    "header and index": "id,a,b,c\n007,1.5,2.0,\nx,4.0,5.25,6.0\n",
    "index below an empty cell": ",a,b,c\n1,1.5,2.0,\n2,4.0,5.25,6.0\n",
    "repeated labels": "a,a,a\n1.5,2.0,\n4.0,5.25,6.0\n",
    "semicolons": "a;b;c\n1,5;2,0;\n4,0;5,25;6,0\n",
    "numbers as labels": ",0,1,2\n0,1.5,2.0,\n1,4.0,5.25,6.0\n",
    "years above names": ",2000,2001,2002\nx,1.5,2.0,\ny,4.0,5.25,6.0\n",
    "names that mean missing": "id,a,b,c\nNA,1.5,2.0,\nx,4.0,5.25,6.0\n",
    "separators inside quotes": '"a;b;c;d",e,f\n1.5,2.0,\n4.0,5.25,6.0\n',
    "tabs": "a\tb\tc\n1.5\t2.0\t\n4.0\t5.25\t6.0\n",
}


@pytest.mark.parametrize("name", CSV)
def test_csv_round_trip(tmp_path, name):
    path = tmp_path / "table.csv"
    path.write_text(CSV[name])
    table = read_matrix_file(path)
    np.testing.assert_array_equal(table.numeric_values(), VALUES)
    copy = tmp_path / "copy.csv"
    table.write_values(copy, table.numeric_values())
    assert copy.read_text().replace('"', "") == CSV[name].replace('"', "")


def test_what_pandas_writes_is_read_back(tmp_path):
    path = tmp_path / "table.csv"
    values = np.random.default_rng(0).standard_normal((30, 4))
    values[0, 0] = values[3, 2] = np.nan
    pd.DataFrame(values).to_csv(path)
    table = read_matrix_file(path)
    np.testing.assert_array_equal(table.numeric_values(), values)
    assert table.labels == "first line, first column"
    pd.DataFrame(values).to_csv(path, header=False, index=False)
    table = read_matrix_file(path)
    np.testing.assert_array_equal(table.numeric_values(), values)
    assert table.labels == "none"


@pytest.mark.parametrize(
    "text",
    [
        "\n\na,b\n1,2\n3,4\n",
        '"a","b"\n"1",1,2\n"2",3,4\n',  # as R writes it
    ],
)
def test_headers_in_odd_places(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    table = read_matrix_file(path)
    np.testing.assert_array_equal(table.numeric_values(), [[1, 2], [3, 4]])
    assert list(table.table.columns) == ["a", "b"]


@pytest.mark.parametrize("cell", ["1;234.5", "5%", "True", "1.5D+00"])
def test_one_odd_cell_does_not_make_labels(tmp_path, cell):
    path = tmp_path / "table.csv"
    path.write_text(f"1.0,2\n3.0,4\n{cell},6\n7.0,8\n")
    with pytest.raises(InputError, match="row 3") as caught:
        read_matrix_file(path).numeric_values()
    assert cell in str(caught.value)


def test_numeric_header_and_index_on_request(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("0,2001,2002\n1,5,6\n2,7,8\n")
    table = read_matrix_file(path, header=True, index=True)
    np.testing.assert_array_equal(table.numeric_values(), [[5, 6], [7, 8]])
    assert list(table.table.columns) == ["2001", "2002"]
    assert read_matrix_file(path).numeric_values().shape == (3, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_npy_and_npz(tmp_path, dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "b.npz", data=values, other=np.ones(3))
    assert read_matrix_file(tmp_path / "a.npy").table.dtype == dtype
    table = read_matrix_file(tmp_path / "b.npz", key="data")
    table.write_values(tmp_path / "c.npz", values)
    assert read_matrix_file(tmp_path / "c.npz").key == "data"
    with pytest.raises(InputError, match="key="):
        read_matrix_file(tmp_path / "b.npz")
    with pytest.raises(InputError, match="no array named"):
        read_matrix_file(tmp_path / "b.npz", key="nothing")


@pytest.mark.parametrize("key", ["file", "allow_pickle", "a/b"])
def test_any_name_in_an_npz(tmp_path, key):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        with archive.open(f"{key}.npy", "w") as file:
            np.lib.format.write_array(file, np.eye(2))
    table = read_matrix_file(tmp_path / "a.npz")
    table.write_values(tmp_path / "b.npz", 2 * np.eye(2))
    again = read_matrix_file(tmp_path / "b.npz")
    assert again.key == key
    np.testing.assert_array_equal(again.numeric_values(), 2 * np.eye(2))


def test_parquet(tmp_path):
    frame = pd.DataFrame(VALUES.astype(np.float32), ["x", "y"], ["a", "b", "c"])
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_matrix_file(tmp_path / "t.parquet")
    table.write_values(tmp_path / "u.parquet", table.numeric_values())
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "u.parquet"), frame)


def bad_files(folder):
    (folder / "empty.csv").write_text("")
    (folder / "labels.csv").write_text("a,b\n")
    (folder / "text.csv").write_text("a,b\n1,yes\n2,no\n")
    (folder / "spaces.csv").write_text("1 2 3\n4 5 6\n")
    (folder / "long.csv").write_text("1,2\n" + "3" * 200_000 + ",4\n")
    np.save(folder / "dates.npy", np.zeros((3, 3), "M8[s]"))
    np.save(folder / "words.npy", np.full((3, 3), "a"))
    np.save(folder / "fields.npy", np.zeros((3, 3), [("a", float)]))
    (folder / "ragged.csv").write_text("1,2\n3,4,5\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "table.xyz").write_text("1")
    (folder / "folder.csv").mkdir()
    (folder / "wrong.npy").write_text("not an array")
    np.save(folder / "cut.npy", np.ones((50, 50)))
    (folder / "cut.npy").write_bytes((folder / "cut.npy").read_bytes()[:500])
    np.save(folder / "pickled.npy", np.array([[{}]], object), allow_pickle=True)
    np.save(folder / "line.npy", np.ones(3))
    (folder / "wrong.npz").write_bytes(b"PK nothing")
    (folder / "wrong.parquet").write_bytes(b"PAR1 nothing")
    (folder / "empty.npy").write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("labels.csv", "no rows below"),
        ("empty.csv", "is empty"),
        ("text.csv", "'yes' in row 1"),
        ("ragged.csv", "cannot be read"),
        ("binary.csv", "cannot be read"),
        ("table.xyz", "unknown ending"),
        ("spaces.csv", "no commas"),
        ("long.csv", "cannot be read"),
        ("dates.npy", "real numbers are needed"),
        ("words.npy", "real numbers are needed"),
        ("fields.npy", "real numbers are needed"),
        ("folder.csv", "is a folder"),
        ("wrong.npy", "cannot be read"),
        ("cut.npy", "cannot be read"),
        ("pickled.npy", "never loaded"),
        ("line.npy", "1-D array"),
        ("wrong.npz", "cannot be read"),
        ("wrong.parquet", "cannot be read"),
        ("missing.csv", "does not exist"),
        ("empty.npy", "cannot be read"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path, name, reason):
    bad_files(tmp_path)
    with pytest.raises(InputError, match=reason) as caught:
        read_matrix_file(tmp_path / name).numeric_values()
    assert "\n" not in str(caught.value)
    assert name.split(".")[0] in str(caught.value)
