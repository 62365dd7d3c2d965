"""Read randomly damaged files: each must give a result or one sentence.

    python tools/fuzz.py --kind png --seconds 600
    python tools/fuzz.py --kind all --seconds 5      # a short run of every reader

Valid files are damaged: bytes changed, cut, doubled, sizes set to extremes. A child
process reads them under limits of memory and time. The tool counts results, sentences
(`InputError`), tracebacks (any other exception), hangs, crashes, log lines, and growth
of memory or of open files. Files that fail are saved in ``tests/corpus``, which
`tests/robustness/test_hostile_files.py` reads in every run. The exit code is 0 if every
file gave a result or a sentence.
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

# Address space of a child process in bytes, including the compiler.
MEMORY = 3 << 30
# Processor time for one file in seconds, which does not depend on the load.
FILE_SECONDS = 20
# Folder of files that once failed.
CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
# Number of files between two measurements of memory.
BATCH = 100
# Outcomes that are no failure.
GOOD_OUTCOMES = ("result", "sentence")
# Bytes by which a child may grow from its first batch to its last.
GROWTH = 64 << 20


def read_image(path):
    """Read an image like `discrepant restore`."""
    from discrepant.image.files.formats import read

    read(path)


def read_table_both_ways(path):
    """Read a table like `discrepant pca` and like `discrepant clean`."""
    from discrepant.core.errors import InputError
    from discrepant.table.io.table_file import read_matrix_file, read_table_file

    refused = None
    try:
        read_matrix_file(path).numeric_values().sum()
    except InputError as error:
        refused = error
    read_table_file(path)
    if refused is not None:
        raise refused


def read_video(path):
    """Separate a video, or write all files like `discrepant video`."""
    from discrepant import separate
    from discrepant.video.separate_file import separate_file

    if zlib.crc32(path.read_bytes()) % 8:
        separate(path)
    else:  # writing takes longer
        separate_file(str(path), path.parent / "out", overwrite=True)


# Valid files, file name extension and reader of each format.
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


def damage_bytes(content, rng):
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


def damage_zip_members(content, rng):
    """Return a zip file with damaged members and valid checksums."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as source,
        zipfile.ZipFile(out, "w") as to,
    ):
        for name in source.namelist():
            member = source.read(name)
            hit = rng.random() < 0.5
            to.writestr(name, damage_bytes(member, rng) if hit else member)
    return out.getvalue()


def damage_png_chunks(content, rng):
    """Return a PNG file with damaged chunks and valid checksums."""
    out, place = [content[:8]], 8
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        name = content[place + 4 : place + 8]
        body = content[place + 8 : place + 8 + size]
        if rng.random() < 0.4:
            body = damage_bytes(body, rng)
        checksum = zlib.crc32(name + body)
        parts = [len(body).to_bytes(4, "big"), name, body, checksum.to_bytes(4, "big")]
        out.append(b"".join(parts))
        place += 12 + size
    return b"".join(out)


# Damage that leaves the container of a format valid.
FORMAT_AWARE_DAMAGE = {
    "png": damage_png_chunks,
    "npz": damage_zip_members,
    "xlsx": damage_zip_members,
}


class LogCounter(logging.Handler):
    """Counts warnings that libraries write to their logs."""

    lines = 0

    def emit(self, record):
        """Count a record."""
        self.lines += record.levelno >= logging.WARNING


def read_file(kind, path, log_counter):
    """Read one file; return the outcome and its message."""
    from discrepant.core.errors import InputError

    before = log_counter.lines
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            KINDS[kind][2](path)
        except InputError as error:
            message = str(error)
            if "\n" in message or len(message) > 600:
                return "long sentence", message
            outcome = "sentence", message
        except Exception:
            return "traceback", traceback.format_exc()
        else:
            outcome = "result", ""
    return ("log line", path.name) if log_counter.lines > before else outcome


def child(kind, seed, pipe, folder):
    """Read damaged files without end; report each before and after it is read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    log_counter = LogCounter()
    logging.getLogger().addHandler(log_counter)
    rng = np.random.default_rng(seed)
    make_seeds, ending, _ = KINDS[kind]
    contents = make_seeds(rng)
    path = Path(folder) / f"file{ending}"
    for content in contents:  # imports and compiles before anything is measured
        path.write_bytes(content)
        read_file(kind, path, log_counter)
    for number in range(1 << 62):
        content = contents[int(rng.integers(len(contents)))]
        damage = damage_bytes
        if rng.random() < 0.5:
            damage = FORMAT_AWARE_DAMAGE.get(kind, damage_bytes)
        path.write_bytes(damage(content, rng))
        pipe.send(("begin", number))
        outcome = read_file(kind, path, log_counter)
        if outcome[0] not in GOOD_OUTCOMES:
            failed = path.with_name(f"{outcome[0]}-{number}".replace(" ", "-") + ending)
            failed.write_bytes(path.read_bytes())
        pipe.send(outcome)
        if number % BATCH == BATCH - 1:
            pipe.send(("size", (_resident_bytes(), len(os.listdir("/proc/self/fd")))))


def _resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def run(kind, seconds, seed, keep=True, max_files=1 << 62):
    """Read damaged files of one kind in child processes; return the outcome counts."""
    counts = dict.fromkeys(
        ("result", "sentence", "long sentence", "log line", "traceback", "hang"), 0
    )
    counts |= {"crash": 0, "leak": 0}
    started = time.monotonic()
    context = multiprocessing.get_context("spawn")
    while (left := seconds - (time.monotonic() - started)) > 0 and (
        sum(counts.values()) < max_files
    ):
        with tempfile.TemporaryDirectory() as folder:
            receiver, sender = context.Pipe(duplex=False)
            worker = context.Process(target=child, args=(kind, seed, sender, folder))
            worker.start()
            sender.close()
            failure = _follow(
                *(worker, receiver, time.monotonic() + left, counts, kind, max_files)
            )
            worker.kill()
            worker.join()
            if keep:
                _keep_failures(kind, Path(folder), failure)
        seed += 1
    return counts


def _follow(worker, pipe, end, counts, kind, max_files):
    """Count outcomes of a child until it fails or time is up; return the failure."""
    first, since = None, None  # memory and files; processor time at the start of a file
    while time.monotonic() < end and sum(counts.values()) < max_files:
        if not pipe.poll(1.0):
            if since is not None and _cpu_seconds(worker.pid) > since + FILE_SECONDS:
                counts["hang"] += 1
                return "hang"
            continue
        try:
            message, content = pipe.recv()
        except EOFError:
            worker.join()
            counts["crash"] += 1
            return f"crash {worker.exitcode}"
        if message == "begin":
            since = _cpu_seconds(worker.pid)
        elif message == "size":
            first = first or content
            if content[0] > first[0] + GROWTH or content[1] > first[1] + 5:
                counts["leak"] += 1
                print(f"{kind}: leak: memory, files {first} → {content}", flush=True)
                return "leak"
        else:
            counts[message] += 1
            if message not in GOOD_OUTCOMES:
                print(f"{kind}: {message}: {content.strip()[-600:]}", flush=True)
    return ""


def _cpu_seconds(process):
    """Return the processor time of a process in seconds."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended, which the pipe will show
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _keep_failures(kind, folder, failure):
    """Save files that failed in the corpus, and the current one after a crash."""
    for path in filter(Path.is_file, folder.iterdir()):
        name = failure.split()[0] if failure and path.stem == "file" else path.stem
        if name != "file":
            CORPUS.mkdir(exist_ok=True)
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:8]
            (CORPUS / f"{kind}-{name}-{digest}{path.suffix}").write_bytes(content)


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    failed = 0
    for kind in KINDS if arguments.kind == "all" else [arguments.kind]:
        counts = run(kind, arguments.seconds, arguments.seed)
        failed += sum(counts.values()) - counts["result"] - counts["sentence"]
        print(f"{kind}: {json.dumps(counts)}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
