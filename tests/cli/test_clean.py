"""`discrepant clean`: any file in and out, and only flagged cells change."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from discrepant import InputError, clean
from discrepant.core.progress import StoppedError
from discrepant.table.clean_file import clean_file
from discrepant.table.example_data import sensor_table
from discrepant.table.io.table_file import read_table_file

FILES = {"cleaned.csv", "flagged.csv", "report.html", "cells.png", "summary.json"}


@pytest.fixture(scope="module")
def sensors():
    return sensor_table(600, random_state=5)


@pytest.fixture
def file(sensors, tmp_path):
    path = tmp_path / "sensors.csv"
    sensors[0].to_csv(path, index=False)
    return path


def cells(path, separator=","):
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file, delimiter=separator, skipinitialspace=True))


def test_the_command_writes_table_flags_report_and_figure(
    discrepant, file, sensors, tmp_path
):
    done = discrepant("clean", file, "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == FILES
    assert "cells are flagged" in done.stdout
    assert "record (identifier)" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    flagged = pd.read_csv(out / "flagged.csv")
    assert len(flagged) == summary["flagged"]
    assert summary["rows"] == "counted from 1 below the labels"
    names = list(sensors[0].columns)
    flags = np.zeros(sensors[1].shape, bool)
    for row, column in zip(flagged["row"], flagged["column"], strict=True):
        flags[row - 1, names.index(column)] = True
    corrupt = sensors[1]
    assert (flags & corrupt).sum() >= 0.95 * flags.sum()
    assert (flags & corrupt).sum() >= 0.95 * corrupt.sum()
    # Only flagged and a few likely cells are other than they were.
    before, after = cells(file), cells(out / "cleaned.csv")
    differ = np.array(
        [
            [a != b for a, b in zip(*rows, strict=True)]
            for rows in zip(before[1:], after[1:], strict=True)
        ]
    )
    replaced = clean(sensors[0]).replaced.to_numpy()
    np.testing.assert_array_equal(differ, replaced)
    assert not (flags & ~replaced).any()
    assert before[0] == after[0]


def test_unchanged_cells_keep_their_text(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    lines = ["code;when;a;b;c;note"]
    for i in range(80):
        b = f"{2 * x[i] + 0.02 * rng.normal():.2f}".replace(".", ",")
        c = f"{-x[i] + 0.02 * rng.normal():.3e}".replace(".", ",")
        a = f"{x[i]:.3f}".replace(".", ",") if i != 7 else "50,000"
        note = '"two\r\nlines; ""quoted"""' if i == 3 else "NA"
        lines.append(f"{i:04d};{i % 28 + 1:02d}.03.2024;{a}; {b} ;{c};{note}")
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeff".encode() + "\r\n".join(lines).encode())
    report = clean_file(path, tmp_path / "out")
    assert report.flagged == 1
    copy = tmp_path / "out" / "cleaned.csv"
    assert copy.read_bytes().startswith("\ufeffcode;when".encode())
    assert copy.read_bytes().count(b"\r\n") == path.read_bytes().count(b"\r\n") + 1
    differ = [
        (old, new)
        for before, after in zip(cells(path, ";"), cells(copy, ";"), strict=True)
        for old, new in zip(before, after, strict=True)
        if old.strip() != new.strip()
    ]
    ((old, new),) = differ
    assert old == "50,000"
    assert abs(float(new.replace(",", ".")) - x[7]) < 0.2
    assert len(new.split(",")[1]) == 3


def test_an_unchanged_file_has_the_same_cells(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(
        b'id, x ,"y, z"\n007,"a ""q"",\nb",1.50\n\n008,1e3, "2.0"\n009,3\n'
    )
    source = read_table_file(path, header=True)
    assert source.table.shape == (3, 3)
    assert source.table["id"].tolist() == ["007", "008", "009"]
    source.write(tmp_path / "copy.csv", source.table)
    assert cells(tmp_path / "copy.csv") == cells(path)
    new = source.table.copy()
    new.iloc[2, 2] = 7.25
    source.write(tmp_path / "copy.csv", new)
    assert (tmp_path / "copy.csv").read_bytes().endswith(b"009,3,7.25\n")


@pytest.mark.parametrize(
    ("text", "names", "shape"),
    [
        ("a,b\n1,x\n2,y\n", ["a", "b"], (2, 2)),
        ("x,1\nx,2\n", ["1", "2"], (2, 2)),
        ("name,site\nx,north\ny,north\n", ["name", "site"], (2, 2)),
        (",a,b\n0,1,x\n1,2,y\n", ["a", "b"], (2, 2)),
        ("a,a\n1,x\n2,y\n", ["a", "a"], (2, 2)),
    ],
)
def test_header_of_tables_with_text(tmp_path, text, names, shape):
    path = tmp_path / "t.csv"
    path.write_text(text)
    table = read_table_file(path).table
    assert list(table.columns) == names
    assert table.shape == shape


def test_dates_and_latin_1_are_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        "when,größe\n2024-01-01 10:00,1\n2024-01-02T11:00:00,2\n".encode("latin-1")
    )
    source = read_table_file(path)
    assert source.table["when"].dtype.kind == "M"
    assert "größe" in source.table
    assert "Latin-1" in source.notes[0]
    source.write(tmp_path / "copy.csv", source.table)
    assert (tmp_path / "copy.csv").read_bytes() == path.read_bytes()


def test_parquet_and_array_files_are_cleaned(sensors, tmp_path):
    frame = sensors[0]
    frame.to_parquet(tmp_path / "t.parquet")
    report = clean_file(tmp_path / "t.parquet", tmp_path / "p")
    assert "cleaned.parquet" in report.files
    again = pd.read_parquet(tmp_path / "p" / "cleaned.parquet")
    assert again.dtypes.equals(frame.dtypes)
    numbers = frame.iloc[:, 3:].to_numpy()
    np.save(tmp_path / "t.npy", numbers)
    np.savez(tmp_path / "t.npz", data=numbers, other=np.ones(3))
    one = clean_file(tmp_path / "t.npy", tmp_path / "y", columns=["0", "1", "2", "3"])
    assert {column["name"] for column in one.columns if column["flagged"]} <= set(
        "0123"
    )
    clean_file(tmp_path / "t.npz", tmp_path / "z", key="data", fill=True)
    filled = np.load(tmp_path / "z" / "cleaned.npz")["data"]
    assert filled.shape == numbers.shape
    assert not np.isnan(filled).any()


def test_excel_files_are_cleaned(sensors, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    frame = sensors[0].iloc[:120]
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame({"a": ["text"]}).to_excel(writer, sheet_name="notes")
        frame.to_excel(writer, sheet_name="data", index=False)
    report = clean_file(path, tmp_path / "out", sheet="data")
    assert report.rows == "those of the sheet data"
    before = openpyxl.load_workbook(path)
    after = openpyxl.load_workbook(tmp_path / "out" / "cleaned.xlsx")
    assert after.sheetnames == before.sheetnames
    differ = {
        (cell.row, before["data"].cell(1, cell.column).value)
        for row in after["data"].iter_rows()
        for cell in row
        if cell.value != before["data"].cell(cell.row, cell.column).value
    }
    flagged = pd.read_csv(tmp_path / "out" / "flagged.csv")
    assert differ == set(zip(flagged["row"], flagged["column"], strict=True))
    with pytest.raises(InputError, match="no sheet named 'x'; it has notes, data"):
        clean_file(path, tmp_path / "no", sheet="x")


def test_excel_files_need_openpyxl(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"pip install '.*\[excel\]'"):
        clean_file(tmp_path / "t.xlsx", tmp_path / "out")


def test_options_are_applied(file, tmp_path):
    report = clean_file(file, tmp_path / "out", drop=["air °C"], fill=True, fdr=0.05)
    roles = {column["name"]: column["role"] for column in report.columns}
    assert roles["air °C"] == "set aside"
    cleaned = pd.read_csv(tmp_path / "out" / "cleaned.csv")
    assert cleaned["air °C"].isna().any()
    assert not cleaned["soil °C"].isna().any()
    assert report.fdr == 0.05
    assert "set aside" in str(report)


def test_an_early_stop_writes_the_scored_rows(file, tmp_path, monkeypatch):
    monkeypatch.setattr("discrepant.core.threads.BLOCK_ROWS", 100)
    fractions = []

    def watch(fraction, note):
        fractions.append(fraction)
        return note != "scoring"

    report = clean_file(file, tmp_path / "out", progress=watch)
    assert fractions == sorted(fractions)
    assert report.caveats[0].startswith("Stopped early: the first 100 of")
    whole = clean_file(file, tmp_path / "whole")
    assert 0 < report.flagged < whole.flagged
    out, given = (
        path.read_text(encoding="utf-8").splitlines()
        for path in (tmp_path / "out" / "cleaned.csv", file)
    )
    assert out[:101] != given[:101]
    assert out[101:] == given[101:]


def test_a_stop_before_the_first_row_writes_nothing(file, tmp_path):
    with pytest.raises(StoppedError):
        clean_file(file, tmp_path / "out", progress=lambda fraction, note: False)
    assert not (tmp_path / "out").exists()


BAD = {
    "words.csv": "a,b\nx,y\nz,w\n",
    "empty.csv": "",
    "labels.csv": "a,b\n",
    "table.xyz": "1",
    "ragged.csv": "a,b\n1,2\n3,4,5\n",
}


@pytest.mark.parametrize(
    ("args", "phrase"),
    [
        (("missing.csv",), "does not exist"),
        ((".",), "is a folder"),
        (("table.xyz",), "unknown ending"),
        (("words.csv",), "No column holds numbers"),
        (("empty.csv",), "is empty"),
        (("labels.csv",), "no rows below"),
        (("ragged.csv",), "cannot be read"),
        (("binary.csv",), "not a text file"),
        (("broken.xlsx",), "cannot be read"),
        (("good.csv", "--columns", "a,nothing"), "--columns names 'nothing'"),
        (("good.csv", "--drop", "nothing"), "--drop names 'nothing'"),
        (("good.csv", "--fdr", "2"), "--fdr must be"),
        (("good.csv", "-o", "taken"), "--overwrite"),
        (("cleaned.csv", "-o", ".", "--overwrite"), "overwritten by its own result"),
    ],
)
def test_mistakes_get_one_sentence(run_in_process, tmp_path, args, phrase):
    for name, text in BAD.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    (tmp_path / "broken.xlsx").write_bytes(b"PK nothing")
    for name in ("good.csv", "cleaned.csv"):
        (tmp_path / name).write_text("a,b\n1,2\n3,4\n5,6\n")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "report.html").write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    if "-o" not in args:
        args = (*args, "-o", "out")
    done = run_in_process("clean", *args)
    assert done.returncode == 2, done.stderr
    assert phrase in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "taken" / "report.html").read_text() == "precious"


def test_repeated_column_names_get_a_caveat(sensors, tmp_path):
    frame = sensors[0].rename(columns={"soil °C": "air °C"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    report = clean_file(tmp_path / "t.csv", tmp_path / "out")
    assert any("the same name" in caveat for caveat in report.caveats)
    assert (tmp_path / "out" / "report.html").exists()
