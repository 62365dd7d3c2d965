"""Run mixed work in one process for a long time: memory and files must not grow.

    python tools/soak.py --minutes 60

Fits, transforms, tables, images, videos and requests to the server run in turn, in
several threads. Every result must equal the first one of its kind, byte for byte. After
a warm-up, allocated memory may grow by 8 MB and resident memory by 64 MB; the numbers
of open files and threads may not grow.
"""

import argparse
import ctypes
import gc
import io
import os
import resource
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image
from starlette.testclient import TestClient

from discrepant import RobustPCA, clean, recover, restore, separate
from discrepant.paper.synthetic import corrupted_matrix
from discrepant.server.access import AccessGuard
from discrepant.server.app import build_app
from discrepant.video.example_data import street

# Rounds before allocated memory is first measured; it is constant after a dozen.
ALLOCATED_WARM_UP = 20
# Rounds before resident memory is first measured. It is constant only when the arena of
# every thread has run every pair of jobs at the same time.
RESIDENT_WARM_UP = 200
# Bytes by which allocated memory may grow.
ALLOCATED_GROWTH = 8 << 20
# Bytes by which resident memory may grow.
RESIDENT_GROWTH = 64 << 20
# Address of the server in this process.
ORIGIN = "http://127.0.0.1:8000"
# Access token of the server.
TOKEN = "a-token"


def upload_and_download(page, name, content):
    """Upload a file to the server and return its first result."""
    job = page.post(f"/jobs?name={name}", content=content).json()["key"]
    while True:
        state = next(k for k in page.get("/jobs").json() if k["key"] == job)
        if state["state"] in ("done", "failed", "cancelled"):
            break
        time.sleep(0.05)
    assert state["state"] == "done", state["error"]
    page.get("/static/main.js")
    file = state["result"]["downloads"][0]["file"]
    result = page.get(f"/jobs/{job}/files/{file}").content
    page.delete(f"/jobs/{job}")
    return result


def jobs(page):
    """Return the jobs of a round: functions that return the bytes of their result."""
    exact = corrupted_matrix((120, 80), 3, 0.1, missing=0.05, random_state=0).observed
    rng = np.random.default_rng(1)
    noisy = exact + 0.1 * rng.standard_normal(exact.shape)
    table = rng.standard_normal((200, 1)) + 0.1 * rng.standard_normal((200, 5))
    table[7, 2] += 9
    picture = np.add.outer(np.arange(48), np.arange(48)).astype(np.uint8)
    picture[::7, ::5] = 255
    frames = street(40, (48, 64))[0]
    lines = [",".join(f"{value:.3f}" for value in row) for row in table]
    csv = "\n".join(["a,b,c,d,e", *lines])
    png = io.BytesIO()
    Image.fromarray(picture).save(png, "PNG")

    def separate_video():
        result = separate(frames)
        return result.foreground.tobytes() + result.background[-1].tobytes()

    def fit(Y):
        model = RobustPCA(random_state=0).fit(Y)
        parts = model.low_rank_, model.sparse_, model.probability_, model.transform(Y)
        return b"".join(part.tobytes() for part in parts)

    return {
        "exact": lambda: fit(exact),
        "noisy": lambda: fit(noisy),
        "descent": lambda: recover(
            np.nan_to_num(exact), solver="descent", random_state=0, max_iter=50
        ).signal.tobytes(),
        "table": lambda: np.asarray(clean(table).table).tobytes(),
        "picture": lambda: restore(picture, quality="fast").image.tobytes(),
        "video": separate_video,
        "page, table": lambda: upload_and_download(page, "t.csv", csv),
        "page, picture": lambda: upload_and_download(page, "p.png", png.getvalue()),
    }


class Mallinfo(ctypes.Structure):
    """Memory statistics of glibc over all arenas (struct mallinfo2)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def allocated_bytes():
    """Return the bytes of allocated memory; 0 without glibc."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = Mallinfo
    statistics = mallinfo()
    return statistics.uordblks + statistics.hblkhd


def resident_bytes():
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure():
    """Return allocated and resident memory, open files and threads."""
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))
    return allocated_bytes(), resident_bytes(), files, threading.active_count()


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    warnings.simplefilter("ignore")
    app = AccessGuard(build_app(), {ORIGIN.removeprefix("http://")}, TOKEN)
    with TestClient(app, base_url=ORIGIN, headers={"origin": ORIGIN}) as page:
        page.get("/", params={"token": TOKEN})
        sys.exit(repeat(jobs(page), end))


def repeat(work, end):
    """Repeat the jobs until the end; return whether a result or a limit failed."""
    first = {name: job() for name, job in work.items()}
    start = settled = None
    rounds = differing = 0
    while time.monotonic() < end:
        with ThreadPoolExecutor(3) as pool:
            futures = {name: pool.submit(job) for name, job in work.items()}
            for name, future in futures.items():
                if future.result() != first[name]:
                    differing += 1
                    print(f"round {rounds}: {name} differs from its first result")
        rounds += 1
        if rounds == ALLOCATED_WARM_UP:
            start = measure()
        if rounds == RESIDENT_WARM_UP:
            settled = resident_bytes()
        if rounds % ALLOCATED_WARM_UP == 0:
            now = measure()
            print(
                f"{rounds} rounds, allocated memory {now[0] / 2**20:.1f} MB, "
                f"resident {now[1] >> 20} MB",
                flush=True,
            )
    last = measure()
    start = start or last
    settled = settled or last[1]
    print(
        f"{rounds} rounds of {len(work)} jobs, {differing} results that differ; "
        f"allocated memory {start[0] / 2**20:.1f} → {last[0] / 2**20:.1f} MB, resident "
        f"{settled >> 20} → {last[1] >> 20} MB, open files {start[2]} → {last[2]}, "
        f"threads {start[3]} → {last[3]}"
    )
    grown = last[0] > start[0] + ALLOCATED_GROWTH or last[1] > settled + RESIDENT_GROWTH
    return bool(differing) or grown or last[2] > start[2] or last[3] > start[3]


if __name__ == "__main__":
    main()
