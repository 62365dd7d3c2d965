"""Damaged files thrown at the readers: each must give a result or one sentence.

    python tests/fuzz.py --kind png --seconds 600
    python tests/fuzz.py --kind all --seconds 5      # a short look at every reader

Real files are made, then damaged: bytes changed, cut, doubled, sizes set to extremes.
A child process reads them under limits of memory and time. Counted are results,
sentences (`InputError`), tracebacks (anything else that is raised), hangs, crashes, log
lines, and growth of memory or of open files. What fails is kept in ``tests/corpus``,
whose files `tests/test_faults_files.py` reads in every run. The exit code tells whether
all went well.
"""

import argparse
import hashlib
import io
import json
import logging
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import fuzz_seeds as seeds

MEMORY = 3 << 30  # bytes of address space for a child, the compiler's included
SECONDS = 20  # of work for one file, however busy the machine is
CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
BATCH = 100  # files between two looks at memory
WELL = ("result", "sentence")
GROWTH = 64 << 20  # bytes by which a child may grow from its first batch to its last


def read_image(path):
    """Read a picture, as `discrepant restore` does."""
    from discrepant.image.files.formats import read

    read(path)


def read_table_both_ways(path):
    """Read a table, as `discrepant pca` and `discrepant clean` do."""
    from discrepant.core.errors import InputError
    from discrepant.table.io.numeric_file import FORMATS, read_table
    from discrepant.table.io.table_file import read_table_file

    refused = None
    if path.suffix in FORMATS:
        try:
            np.asarray(read_table(path).values).sum()
        except InputError as error:
            refused = error
    read_table_file(path)
    if refused is not None:
        raise refused


def read_video(path):
    """Tell a video apart, as `separate` does, or write all that the command does."""
    from discrepant import separate
    from discrepant.video.separate_file import separate_file

    if zlib.crc32(path.read_bytes()) % 8:
        separate(path)
    else:  # writing takes longer
        separate_file(str(path), path.parent / "out", overwrite=True)


KINDS = {
    "png": (seeds.png_seeds, ".png", read_image),
    "jpeg": (seeds.jpeg_seeds, ".jpg", read_image),
    "webp": (seeds.webp_seeds, ".webp", read_image),
    "tiff": (seeds.tiff_seeds, ".tif", read_image),
    "npy": (seeds.npy_seeds, ".npy", read_table_both_ways),
    "npz": (seeds.npz_seeds, ".npz", read_table_both_ways),
    "csv": (seeds.csv_seeds, ".csv", read_table_both_ways),
    "parquet": (seeds.parquet_seeds, ".parquet", read_table_both_ways),
    "xlsx": (seeds.xlsx_seeds, ".xlsx", read_table_both_ways),
    "video": (seeds.video_seeds, ".mp4", read_video),
}


def damaged(content, rng):
    """Return a file with some of its bytes changed, moved, doubled or cut."""
    data = bytearray(content)
    for _ in range(rng.geometric(0.6)):
        if not data:
            break
        place = int(rng.integers(len(data)))
        some = int(min(len(data) - place, rng.geometric(0.1)))
        way = rng.integers(8)
        if way == 0:
            data[place] ^= 1 << int(rng.integers(8))
        elif way == 1:
            data[place : place + some] = rng.bytes(some)
        elif way == 2:
            del data[place:]
        elif way == 3:
            del data[place : place + some]
        elif way == 4:
            data[place:place] = data[place : place + some]
        elif way == 5:  # a size set to an extreme
            size = int(rng.choice([1, 2, 4, 8]))
            end = [b"\xff", b"\x00", b"\x7f"][rng.integers(3)]
            data[place : place + size] = end * size
        elif way == 6:
            head = int(min(len(data), 64))
            data[int(rng.integers(head))] = int(rng.integers(256))
        else:
            other = int(rng.integers(len(data)))
            data[place : place + some] = data[other : other + some]
    return bytes(data)


def rezipped(content, rng):
    """Return a zip file whose members are damaged, with checksums that are right."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as source,
        zipfile.ZipFile(out, "w") as to,
    ):
        for name in source.namelist():
            member = source.read(name)
            hit = rng.random() < 0.5
            to.writestr(name, damaged(member, rng) if hit else member)
    return out.getvalue()


def rechecked(content, rng):
    """Return a PNG file with damaged chunks, whose checksums are right."""
    out, place = [content[:8]], 8
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        name = content[place + 4 : place + 8]
        body = content[place + 8 : place + 8 + size]
        if rng.random() < 0.4:
            body = damaged(body, rng)
        check = zlib.crc32(name + body)
        sides = [len(body).to_bytes(4, "big"), name, body, check.to_bytes(4, "big")]
        out.append(b"".join(sides))
        place += 12 + size
    return b"".join(out)


INSIDE = {"png": rechecked, "npz": rezipped, "xlsx": rezipped}


class Heard(logging.Handler):
    """Counts what libraries write to their logs."""

    lines = 0

    def emit(self, record):
        """Count a line."""
        self.lines += record.levelno >= logging.WARNING


def tried(kind, path, heard):
    """Read one file; return what came of it, and why."""
    from discrepant.core.errors import InputError

    before = heard.lines
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            KINDS[kind][2](path)
        except InputError as error:
            said = str(error)
            if "\n" in said or len(said) > 600:
                return "long sentence", said
            outcome = "sentence", said
        except Exception:
            return "traceback", traceback.format_exc()
        else:
            outcome = "result", ""
    return ("log line", path.name) if heard.lines > before else outcome


def child(kind, seed, pipe, folder):
    """Read damaged files for ever, telling of each before and after it is read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    heard = Heard()
    logging.getLogger().addHandler(heard)
    rng = np.random.default_rng(seed)
    made, ending, _ = KINDS[kind]
    contents = made(rng)
    path = Path(folder) / f"file{ending}"
    for content in contents:  # imports and compiles, and finds the seeds sound
        path.write_bytes(content)
        tried(kind, path, heard)
    for number in range(1 << 62):
        content = contents[int(rng.integers(len(contents)))]
        spoil = INSIDE.get(kind, damaged) if rng.random() < 0.5 else damaged
        path.write_bytes(spoil(content, rng))
        pipe.send(("begin", number))
        outcome = tried(kind, path, heard)
        if outcome[0] not in WELL:
            failed = path.with_name(f"{outcome[0]}-{number}".replace(" ", "-") + ending)
            failed.write_bytes(path.read_bytes())
        pipe.send(outcome)
        if number % BATCH == BATCH - 1:
            pipe.send(("size", (_resident(), len(os.listdir("/proc/self/fd")))))


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def run(kind, seconds, seed, keep=True, most=1 << 62):
    """Throw damaged files of one kind at its reader; return what was counted."""
    counts = dict.fromkeys(
        ("result", "sentence", "long sentence", "log line", "traceback", "hang"), 0
    )
    counts |= {"crash": 0, "leak": 0}
    started = time.monotonic()
    context = multiprocessing.get_context("spawn")
    while (left := seconds - (time.monotonic() - started)) > 0 and (
        sum(counts.values()) < most
    ):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = context.Pipe(duplex=False)
            worker = context.Process(target=child, args=(kind, seed, theirs, folder))
            worker.start()
            theirs.close()
            why = _followed(
                *(worker, ours, time.monotonic() + left, counts, kind, most)
            )
            worker.kill()
            worker.join()
            if keep:
                _keep(kind, Path(folder), why)
        seed += 1
    return counts


def _followed(worker, pipe, end, counts, kind, most):
    """Count what a child tells until it fails or time is up; return the failure."""
    first, since = None, None  # sizes; seconds of work when the file was begun
    while time.monotonic() < end and sum(counts.values()) < most:
        if not pipe.poll(1.0):
            if since is not None and _worked(worker.pid) > since + SECONDS:
                counts["hang"] += 1
                return "hang"
            continue
        try:
            told, what = pipe.recv()
        except EOFError:
            worker.join()
            counts["crash"] += 1
            return f"crash {worker.exitcode}"
        if told == "begin":
            since = _worked(worker.pid)
        elif told == "size":
            first = first or what
            if what[0] > first[0] + GROWTH or what[1] > first[1] + 5:
                counts["leak"] += 1
                print(f"{kind}: leak: memory, files {first} → {what}", flush=True)
                return "leak"
        else:
            counts[told] += 1
            if told not in WELL:
                print(f"{kind}: {told}: {what.strip()[-600:]}", flush=True)
    return ""


def _worked(process):
    """Return the seconds that a process has worked."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended, and the pipe will tell
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _keep(kind, folder, why):
    """Keep the files that failed; with a reason, the one that was being read too."""
    for path in filter(Path.is_file, folder.iterdir()):
        name = why.split()[0] if why and path.stem == "file" else path.stem
        if name != "file":
            CORPUS.mkdir(exist_ok=True)
            content = path.read_bytes()
            mark = hashlib.sha256(content).hexdigest()[:8]
            (CORPUS / f"{kind}-{name}-{mark}{path.suffix}").write_bytes(content)


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    failed = 0
    for kind in KINDS if asked.kind == "all" else [asked.kind]:
        counts = run(kind, asked.seconds, asked.seed)
        failed += sum(counts.values()) - counts["result"] - counts["sentence"]
        print(f"{kind}: {json.dumps(counts)}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
