"""Mixed work in one process for a long time: memory and files stay level.

    python tests/soak.py --minutes 60

Fits, transforms, tables, pictures, videos and requests to the page in turn, from
several threads at a time. Every result must equal the first one of its kind, byte for
byte; after a warm-up, what the allocator has handed out may grow by no more than 8 MB,
what it holds by no more than 64, and the number of open files and threads by none.
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
from discrepant.paper.stopping import Steps
from discrepant.paper.synthetic import corrupted_matrix
from discrepant.server.access import AccessGuard
from discrepant.server.app import build_app
from discrepant.video.example_data import street

# Rounds before memory is first looked at. What is in use levels off within a dozen;
# what is held only when every thread's arena has met every pair of jobs at once.
WARM, SETTLED = 20, 200
GROWTH, HELD = 8 << 20, 64 << 20  # bytes in use, and held


HERE, TOKEN = "http://127.0.0.1:8000", "a-token"


def visited(page, name, content):
    """Send a file to the page and return the result that it offers."""
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
    """Return the work of a round: functions that return the bytes of their result."""
    exact = corrupted_matrix((120, 80), 3, 0.1, missing=0.05, random_state=0).observed
    rng = np.random.default_rng(1)
    noisy = exact + 0.1 * rng.standard_normal(exact.shape)
    table = rng.standard_normal((200, 1)) + 0.1 * rng.standard_normal((200, 5))
    table[7, 2] += 9
    picture = np.add.outer(np.arange(48), np.arange(48)).astype(np.uint8)
    picture[::7, ::5] = 255
    frames = street(40, (48, 64))[0]
    lines = [",".join(f"{value:.3f}" for value in row) for row in table]
    sent = io.BytesIO()
    Image.fromarray(picture).save(sent, "PNG")

    def told_apart():
        found = separate(frames)
        return found.foreground.tobytes() + found.background[-1].tobytes()

    def fit(Y):
        model = RobustPCA(random_state=0).fit(Y)
        parts = model.low_rank_, model.sparse_, model.probability_, model.transform(Y)
        return b"".join(part.tobytes() for part in parts)

    return {
        "exact": lambda: fit(exact),
        "noisy": lambda: fit(noisy),
        "descent": lambda: recover(
            np.nan_to_num(exact), solver="descent", random_state=0, stop=Steps(50)
        ).signal.tobytes(),
        "table": lambda: np.asarray(clean(table).table).tobytes(),
        "picture": lambda: restore(picture, quality="fast").image.tobytes(),
        "video": told_apart,
        "page, table": lambda: visited(page, "t.csv", "\n".join(["a,b,c,d,e", *lines])),
        "page, picture": lambda: visited(page, "p.png", sent.getvalue()),
    }


class Mallinfo(ctypes.Structure):
    """What glibc says of its memory, in all arenas."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def in_use():
    """Return the bytes of memory that are handed out; none where glibc is not."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = Mallinfo
    found = ask()
    return found.uordblks + found.hblkhd


def held():
    """Return the bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def state():
    """Return memory in use and held, open files and threads."""
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))
    return in_use(), held(), files, threading.active_count()


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    warnings.simplefilter("ignore")
    site = AccessGuard(build_app(), {HERE.removeprefix("http://")}, TOKEN)
    with TestClient(site, base_url=HERE, headers={"origin": HERE}) as page:
        page.get("/", params={"token": TOKEN})
        sys.exit(soaked(jobs(page), end))


def soaked(work, end):
    """Repeat the work to the end; return whether anything went wrong."""
    first = {name: job() for name, job in work.items()}
    start = settled = None
    rounds = wrong = 0
    while time.monotonic() < end:
        with ThreadPoolExecutor(3) as pool:
            futures = {name: pool.submit(job) for name, job in work.items()}
            for name, future in futures.items():
                if future.result() != first[name]:
                    wrong += 1
                    print(f"round {rounds}: {name} differs from its first result")
        rounds += 1
        if rounds == WARM:
            start = state()
        if rounds == SETTLED:
            settled = held()
        if rounds % WARM == 0:
            now = state()
            print(
                f"{rounds} rounds, memory in use {now[0] / 2**20:.1f} MB, "
                f"held {now[1] >> 20} MB",
                flush=True,
            )
    last = state()
    start = start or last
    settled = settled or last[1]
    print(
        f"{rounds} rounds of {len(work)} kinds of work, {wrong} results that differ; "
        f"memory in use {start[0] / 2**20:.1f} → {last[0] / 2**20:.1f} MB, held "
        f"{settled >> 20} → {last[1] >> 20} MB, open files {start[2]} → {last[2]}, "
        f"threads {start[3]} → {last[3]}"
    )
    grown = last[0] > start[0] + GROWTH or last[1] > settled + HELD
    return bool(wrong) or grown or last[2] > start[2] or last[3] > start[3]


if __name__ == "__main__":
    main()
