"""Mixed work in one process for a long time: memory and files stay level.

    python tests/soak.py --minutes 60

Fits, transforms, tables and pictures in turn, from several threads at a time. Every
result must equal the first one of its kind, byte for byte; after a warm-up, memory may
grow by no more than 64 MB, and the number of open files and threads by none.
"""

import argparse
import gc
import os
import resource
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from discrepant import RobustPCA, clean, recover, restore
from discrepant.paper.problems import corrupted_matrix
from discrepant.paper.stopping import Steps

WARM = 3  # rounds before memory is first looked at
GROWTH = 64 << 20  # bytes


def jobs():
    """Return the work of a round: functions that return the bytes of their result."""
    exact = corrupted_matrix((120, 80), 3, 0.1, missing=0.05, random_state=0).observed
    rng = np.random.default_rng(1)
    noisy = exact + 0.1 * rng.standard_normal(exact.shape)
    table = rng.standard_normal((200, 1)) + 0.1 * rng.standard_normal((200, 5))
    table[7, 2] += 9
    picture = np.add.outer(np.arange(48), np.arange(48)).astype(np.uint8)
    picture[::7, ::5] = 255

    def fit(Y):
        model = RobustPCA(random_state=0).fit(Y)
        parts = model.low_rank_, model.sparse_, model.probability_, model.transform(Y)
        return b"".join(part.tobytes() for part in parts)

    return {
        "exact": lambda: fit(exact),
        "noisy": lambda: fit(noisy),
        "descent": lambda: recover(
            np.nan_to_num(exact), random_state=0, stop=Steps(50)
        ).signal.tobytes(),
        "table": lambda: np.asarray(clean(table).table).tobytes(),
        "picture": lambda: restore(picture, quality="fast").image.tobytes(),
    }


def resident():
    """Return the bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def state():
    """Return memory, open files and threads."""
    gc.collect()
    return resident(), len(os.listdir("/proc/self/fd")), threading.active_count()


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    warnings.simplefilter("ignore")
    work = jobs()
    first = {name: job() for name, job in work.items()}
    start, rounds, wrong = None, 0, 0
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
    last = state()
    start = start or last
    grown = last[0] - start[0]
    print(
        f"{rounds} rounds of {len(work)} kinds of work, {wrong} results that differ; "
        f"memory {start[0] >> 20} → {last[0] >> 20} MB, open files {start[1]} → "
        f"{last[1]}, threads {start[2]} → {last[2]}"
    )
    sys.exit(bool(wrong) or grown > GROWTH or last[1] > start[1] or last[2] > start[2])


if __name__ == "__main__":
    main()
