"""Signals, full disks and concurrent runs: results are complete or absent.

These tests check the first table of docs/robustness.md.
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.request import HTTPCookieProcessor, build_opener

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from discrepant import InputError, RobustPCA, clean
from discrepant.core.jit import njit
from discrepant.core.output_files import LOCK, SCRATCH, atomic_output_folder
from support.disks import corrupted_rank_one, mount_small_disk, unmount
from support.messages import without_notice

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="signals, mounted disks and /proc need Linux"
)
# Child processes inherit ignored signals if the tests run under nohup or with a shell's
# &; this code restores the default handlers.
DEFAULT_SIGNALS = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
# Writes half a file to an output folder, then sleeps until a signal arrives.
WRITER = f"""{DEFAULT_SIGNALS}
import sys, time
from pathlib import Path
from discrepant.cli.main import run
import typer
app = typer.Typer()
@app.command()
def write(folder: Path):
    from discrepant.core.output_files import atomic_output_folder
    with atomic_output_folder(folder, ["a.txt"]) as scratch:
        (scratch / "a.txt").write_text("half")
        print("ready", flush=True)
        time.sleep(60)
@app.command()
def other(): pass
sys.argv = ["writer", "write", sys.argv[1]]
run(app)
"""


def start_writer(folder):
    """Start a process and return it while it writes to a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def scratch_folders(folder):
    return list(folder.glob(f"{SCRATCH}*"))


def test_next_run_removes_leftovers_of_a_killed_run(tmp_path):
    process = start_writer(tmp_path)
    assert len(scratch_folders(tmp_path)) == 1
    with atomic_output_folder(tmp_path, ["b.txt"]) as scratch:  # a concurrent run
        (scratch / "b.txt").write_text("whole")
        assert len(scratch_folders(tmp_path)) == 2
    assert len(scratch_folders(tmp_path)) == 1  # that of the running process
    process.kill()
    process.communicate()
    assert len(scratch_folders(tmp_path)) == 1
    with atomic_output_folder(tmp_path, ["c.txt"]) as scratch:
        (scratch / "c.txt").write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt", "c.txt"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
)
def test_signals_end_a_run_without_leftovers(tmp_path, number, code):
    process = start_writer(tmp_path)
    process.send_signal(number)
    errors = process.communicate()[1]
    assert process.returncode == code
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_server(number):
    code = "from discrepant.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-uc", DEFAULT_SIGNALS + code, "serve", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().split()[1]
        browser = build_opener(HTTPCookieProcessor())
        browser.open(address).close()
        with browser.open(address.replace("/?", "/events?")):  # an open page
            process.send_signal(number)
            errors = process.communicate(timeout=20)[1]
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert errors == ""


def test_a_folder_in_place_of_an_output_file_is_refused_before_the_work(tmp_path):
    (tmp_path / "summary.json").mkdir()
    for overwrite in (False, True):
        with (
            pytest.raises(InputError, match="is a folder"),
            atomic_output_folder(tmp_path, ["a", "summary.json"], overwrite=overwrite),
        ):
            raise AssertionError("the output was not refused")


@pytest.mark.parametrize("overwrite", [False, True])
def test_all_results_are_moved_or_none(tmp_path, overwrite):
    if overwrite:
        (tmp_path / "a.txt").write_text("old")
    with (
        pytest.raises(InputError, match=r"cannot be written to|exists already"),
        atomic_output_folder(
            tmp_path, ["a.txt", "b.txt"], overwrite=overwrite
        ) as scratch,
    ):
        (scratch / "a.txt").write_text("new")
        (scratch / "b.txt").write_text("new")
        (tmp_path / "b.txt").mkdir()  # as if by another process during the run
        (tmp_path / "b.txt" / "inside").write_text("x")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == ({"a.txt", "b.txt"} if overwrite else {"b.txt"})
    assert not overwrite or (tmp_path / "a.txt").read_text() == "old"


def test_folders_are_replaced_as_a_whole(tmp_path):
    def write(word, **options):
        with atomic_output_folder(
            tmp_path, ["a", "z"], folders=["a"], **options
        ) as scratch:
            (scratch / "a").mkdir()
            (scratch / "a" / word).write_text(word)
            (scratch / "z").write_text(word)

    write("first")
    with pytest.raises(InputError, match="exists already"):
        write("second")
    write("second", overwrite=True)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["second"]
    (tmp_path / "z").unlink()
    with pytest.raises(InputError, match="cannot be written to"):
        with atomic_output_folder(
            tmp_path, ["a"], folders=["a"], overwrite=True
        ) as scratch:
            (scratch / "a").mkdir()
            (scratch / "z").write_text("third")
            (tmp_path / "z").mkdir()  # as if by another process during the run
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["second"]
    assert not scratch_folders(tmp_path)


def test_a_folder_that_holds_the_input_is_not_replaced(tmp_path):
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / "in.mp4").write_text("video")
    for keep in (tmp_path / "masks", tmp_path / "masks" / "in.mp4"):
        with (
            pytest.raises(InputError, match="overwritten by its own result"),
            atomic_output_folder(
                tmp_path, ["masks"], folders=["masks"], overwrite=True, keep=keep
            ),
        ):
            raise AssertionError("the output was not refused")


def test_one_of_two_concurrent_runs_is_refused(tmp_path):
    barrier, outcomes = threading.Barrier(2), []

    def write(word):
        try:
            with atomic_output_folder(tmp_path, ["a.txt", "b.txt"]) as scratch:
                for name in ("a.txt", "b.txt"):
                    (scratch / name).write_text(word)
                barrier.wait()
            outcomes.append(word)
        except InputError as error:
            assert "exists already" in str(error)

    threads = [threading.Thread(target=write, args=(word,)) for word in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert {p.read_text() for p in tmp_path.iterdir()} == set(outcomes)


def test_a_full_disk_is_reported_with_its_path(tmp_path, discrepant):
    disk = tmp_path / "disk"
    mount_small_disk(disk, "64k")
    try:
        np.save(tmp_path / "y.npy", corrupted_rank_one((200, 100)))
        done = discrepant("pca", "y.npy", "-o", disk / "out", cwd=tmp_path)
        assert done.returncode == 2
        assert str(disk) in done.stderr
        assert done.stderr.count("\n") == 1
        assert list(disk.iterdir()) == []
    finally:
        unmount(disk)


def test_unwritable_folders_are_refused(tmp_path):
    for path in ("/proc/nothing", f"{tmp_path}/{'a' * 300}"):
        with (
            pytest.raises(InputError, match="cannot be written to"),
            atomic_output_folder(type(tmp_path)(path), ["a"]),
        ):
            raise AssertionError("the output was not refused")


# Fits a model with compiled code and prints the bytes of its result.
FIT = """
import numpy as np
from discrepant import RobustPCA
Y = np.outer(np.arange(1.0, 31), np.arange(1.0, 21)); Y[3, 4] = 900
print(RobustPCA(random_state=0, noise=0).fit(Y).low_rank_.tobytes().hex()[:4000])
"""


def run_with_cache(folder, **environment):
    """Run a fit in a process that compiles into the given cache folder."""
    return subprocess.run(
        [sys.executable, "-c", FIT],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment},
    )


@pytest.mark.slow
def test_truncated_cache_files_are_compiled_again(tmp_path):
    first = run_with_cache(tmp_path)
    assert first.returncode == 0, first.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for number, path in enumerate(files):
        path.write_bytes(path.read_bytes()[: 100 * (number % 3)])
    second = run_with_cache(tmp_path)
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout


CACHED_FUNCTION = """
from discrepant.core.jit import njit
@njit()
def plus(x, y):
    return x + y
"""
# Compiles the function for some types; each process starts with another type.
CALLER = """
import sys, time
from functions import plus
cases = [(1, 1), (1, 0.5), (0.5, 1), (0.5, 0.5), (1j, 1), (1j, 0.5)]
first = int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for k in range(first, first + int(sys.argv[2])):
    x, y = cases[k % len(cases)]
    result = plus(x, y)
    assert result == x + y and type(result) is type(x + y), (x, y, result)
print(sum(plus.stats.cache_misses.values()), flush=True)
"""


def count_compilations(folder, processes, signatures):
    """Call a function in concurrent processes; return how often each compiled it."""
    (folder / "functions.py").write_text(CACHED_FUNCTION)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CALLER, str(k), str(signatures)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )
        for k in range(processes)
    ]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    compiled = []
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        compiled.append(int(out))
    return compiled


@pytest.mark.parametrize(
    ("processes", "signatures", "caches"),
    [(3, 2, 1), pytest.param(16, 6, 5, marks=pytest.mark.slow)],
)
def test_processes_share_the_cache(tmp_path, processes, signatures, caches):
    for number in range(caches):
        empty = tmp_path / str(number)
        empty.mkdir()
        count_compilations(empty, processes, signatures)
        again = count_compilations(empty, processes, signatures)
        assert again == [0] * processes  # all signatures are in the cache


def test_no_two_signatures_share_a_file(tmp_path, monkeypatch):
    """Two dispatchers compile at the same time, and one reads an outdated index."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "cache"))

    def plus(x):
        return x + 1

    first, second, third = (njit()(plus) for _ in range(3))
    save = IndexDataCacheFile._save_data

    def interrupted(self, name, data):
        with monkeypatch.context() as patch:
            patch.setattr(IndexDataCacheFile, "_save_data", save)
            # The first dispatcher reads the index before the second one writes it.
            patch.setattr(IndexDataCacheFile, "_load_index", lambda self: {})
            assert first(2) == 3
        save(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_save_data", interrupted)
        assert second(2.5) == 3.5
    assert third(2) == 3 and type(third(2)) is int
    assert third(2.5) == 3.5
    assert sum(third.stats.cache_hits.values()) == 2


@pytest.mark.slow
def test_an_unwritable_cache_is_no_error(tmp_path):
    for folder in ("/proc/nothing", "/dev/null"):
        done = run_with_cache(folder, HOME="/proc/nothing")
        assert done.returncode == 0, done.stderr
    full = tmp_path / "full"
    mount_small_disk(full, "16k")
    try:
        done = run_with_cache(full)
        assert done.returncode == 0, done.stderr
    finally:
        unmount(full)


# Commands with unusual streams or environments, for slow runs.
SLOW_COMMANDS = (
    "PYTHONIOENCODING=cp1252 {} pca --help > log",
    "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {} pca y.npy -o out > log",
    "env -u HOME -u USER {} pca y.npy -o out > log",
)


@pytest.mark.parametrize(
    "template",
    [
        "PYTHONIOENCODING=cp1252 {} restore im.npy -o out.npy --fast > log",
        "{} pca y.npy -o out <&- >&- 2>&-",
        *(pytest.param(text, marks=pytest.mark.slow) for text in SLOW_COMMANDS),
    ],
)
def test_closed_and_non_utf8_streams_are_no_error(tmp_path, template):
    np.save(tmp_path / "y.npy", corrupted_rank_one())
    np.save(tmp_path / "im.npy", np.add.outer(*[np.arange(20, dtype=np.uint8)] * 2))
    command = template.format(f"{sys.executable} -m discrepant")
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert without_notice(done.stderr.decode()) == ""


def test_a_broken_pipe_loses_no_result(tmp_path):
    np.save(tmp_path / "y.npy", corrupted_rank_one())
    command = f"{sys.executable} -m discrepant pca y.npy -o out | true"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True)
    assert b"Traceback" not in done.stderr
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["rank"] == 1


def test_file_names_that_are_not_utf8_are_accepted(tmp_path, discrepant):
    name = os.fsdecode(b"caf\xe9.npy")
    np.save(tmp_path / name, corrupted_rank_one())
    done = discrepant("pca", name, "-o", os.fsdecode(b"o\xe9"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def rank_of(seed):
    return int(RobustPCA(random_state=0).fit(corrupted_rank_one(seed=seed)).rank_)


def test_fits_work_after_a_fork_and_in_process_pools():
    assert rank_of(0) == 1
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(rank_of, range(4)) == [1] * 4
    import joblib

    def ranks(pair):
        return joblib.Parallel(2)(joblib.delayed(rank_of)(seed) for seed in pair)

    pairs = [(1, 2), (3, 4)]
    nested = joblib.Parallel(2, prefer="threads")(map(joblib.delayed(ranks), pairs))
    assert nested == [[1, 1], [1, 1]]


def test_threads_that_read_one_model_get_the_same_bytes():
    Y = corrupted_rank_one((60, 40))
    model, other = (RobustPCA(random_state=0).fit(Y) for _ in range(2))
    expected = model.sparse_.tobytes(), model.certificate_.gap

    def read_results(_):
        return other.sparse_.tobytes(), other.certificate_.gap

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read_results, range(32))) == {expected}


def test_overlapping_fits_restore_the_number_of_blas_threads():
    from threadpoolctl import threadpool_info, threadpool_limits

    def counts():
        pools = threadpool_info()
        return [pool["num_threads"] for pool in pools if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = counts()
        with ThreadPoolExecutor(6) as pool:
            assert set(pool.map(rank_of, range(12))) == {1}
        assert counts() == before


def test_a_fit_in_any_thread_limits_blas_to_one_thread():
    from threadpoolctl import ThreadpoolController, threadpool_limits

    from discrepant.core.threads import OneBlasThread

    def counts():
        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return {blas.get_num_threads() for blas in libraries}

    def counts_inside():
        limit.enter()
        inside = counts()
        limit.leave()
        return inside

    limit = OneBlasThread()
    with threadpool_limits(2, user_api="blas"):  # set by the main thread before
        before = counts()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(counts_inside).result() == {1}
        assert counts() == before


@pytest.mark.slow
def test_concurrent_fits_take_no_more_cpu_time_than_sequential_fits():
    problems = [corrupted_rank_one((400, 400), seed) for seed in range(8)]

    def fit(Y):
        RobustPCA(random_state=0).fit(Y)

    def sequential():
        for Y in problems:
            RobustPCA(random_state=0, n_jobs=1).fit(Y)

    def concurrent():
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(fit, problems))

    def cpu_seconds(run):
        started = time.process_time()
        run()
        return time.process_time() - started

    sequential()  # compiles
    concurrent()
    sequential_seconds, concurrent_seconds = (
        min(cpu_seconds(run) for _ in range(5)) for run in (sequential, concurrent)
    )
    assert concurrent_seconds <= 1.5 * sequential_seconds


def test_results_do_not_depend_on_the_system_clock(monkeypatch):
    table = np.random.default_rng(0).standard_normal((40, 4))
    table[:, 1:] += table[:, :1]
    expected = np.asarray(clean(table).table)
    times = iter(range(10**9, 0, -(10**5)))
    monkeypatch.setattr(time, "time", lambda: next(times))
    assert np.array_equal(np.asarray(clean(table).table), expected)
    assert rank_of(0) == 1


def test_the_lock_file_is_not_among_the_results(tmp_path):
    with atomic_output_folder(tmp_path / "out", ["a"]) as scratch:
        (scratch / "a").write_text("a")
        assert (scratch / LOCK).exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
