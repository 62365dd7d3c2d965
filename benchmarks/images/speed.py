"""Time of `restore` in units of a median filter, and its peak memory.

    python benchmarks/images/photographs.py --units

Each case runs in a process of its own, which gives its peak memory; the same process
measures the unit, one `scipy.ndimage.median_filter` of size 5 on one thread. For small
images both are the shortest of three runs.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import median_filter

COLUMNS = "image, corruption, quality, units, s, unit in s, dB, changed, memory, before"
KINDS = ("nothing", "0.5% hot", "random values 30%", "random values 50%")


def enlarged(image):
    """Return 4000×3000 of an image, repeated."""
    image = image[:3000, :4000]
    missing = [(0, n - m) for n, m in zip((3000, 4000), image.shape, strict=False)]
    return np.pad(image, [*missing, (0, 0)], mode="symmetric")


def corrupted(truth, kind, seed):
    from discrepant.image.corruptions import random_impulses

    if kind == "0.5% hot":
        out = truth.copy()
        out[np.random.default_rng(seed).random(truth.shape[:2]) < 0.005] = 255
        return out
    if kind == "nothing":
        return truth
    fraction = float(kind.split()[-1].rstrip("%")) / 100
    out = random_impulses(truth / 255, fraction, random_state=seed)[0]
    return np.rint(255 * np.clip(out, 0, 1)).astype(np.uint8)


def print_units(images, sizes, seed, before=None):
    """Print time and memory of each kind of image and corruption.

    ``before`` is the ``src`` folder of an earlier version. The last column compares the
    time and the PSNR at 50% with it.
    """
    columns = COLUMNS.split(", ")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for size in sizes:
        for image in images:
            for truth in (image, image[..., 1:2]):
                for kind in KINDS:
                    if size == "512" or not kind.endswith("50%"):
                        _row(truth, size, kind, seed, before)


def _row(image, size, kind, seed, before):
    rows, columns = (max(0, n - 512) // 2 for n in image.shape[:2])
    inner = image[rows : rows + 512, columns : columns + 512]
    truth = inner if size == "512" else enlarged(image)
    quality = "best" if kind.endswith("50%") else "fast"
    result = _in_own_process(truth, kind, quality, seed)
    compared = ""
    if before is not None and quality == "best":
        old = _in_own_process(truth, kind, quality, seed, before)
        ratio, gain = result["seconds"] / old["seconds"], result["dB"] - old["dB"]
        compared = f"{ratio:.2f} × its time, {gain:+.2f} dB"
    cells = (
        *("×".join(map(str, truth.shape)), kind, quality),
        f"{result['seconds'] / result['unit']:.1f}",
        *(f"{result['seconds']:.1f}", f"{result['unit']:.2f}"),
        "exact" if np.isinf(result["dB"]) else f"{result['dB']:.2f}",
        f"{result['changed']:.3%}",
        f"{result['peak'] / (4 * truth.size):.1f} ×",
        compared,
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def _in_own_process(truth, kind, quality, seed, source=None):
    """Return the measurements of one case in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "truth.npy"
        np.save(path, truth)
        environment = dict(os.environ)
        if source is not None:
            environment["PYTHONPATH"] = str(source)
        command = [sys.executable, __file__, str(path), kind, quality, str(seed)]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])


def _measure(truth, kind, quality, seed):
    from discrepant import restore
    from discrepant.image.arrays import psnr

    ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    for given in (ramp, corrupted(ramp, "random values 30%", 0)):
        restore(np.dstack([given] * truth.shape[2]), quality=quality)  # compile
    given = corrupted(truth, kind, seed)
    n_runs = 3 if truth.size < 10**6 else 1
    unit, _ = _shortest(n_runs, lambda: median_filter(given, (5, 5, 1)))
    seconds, image = _shortest(n_runs, lambda: restore(given, quality=quality).image)
    peak = _peak_memory()
    exact = np.array_equal(image, truth)
    return {
        "seconds": seconds,
        "unit": unit,
        "dB": float("inf") if exact else float(psnr(image / 255.0, truth / 255.0)),
        "changed": float(np.mean(image != given)),
        "peak": peak,
    }


def _shortest(n_runs, function):
    """Return the shortest time of a function over several runs, and its result."""
    seconds = []
    for _ in range(n_runs):
        started = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - started)
    return min(seconds), result


def _peak_memory():
    """Return the peak memory of this process in bytes.

    It is read from /proc: the count of `resource` is inherited from the parent.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if "VmHWM" in line)


def print_large(image, seed):
    """Print time, memory and seams of a 4000×3000 image with 30% random values."""
    from discrepant import restore
    from discrepant.image.arrays import psnr
    from discrepant.image.restore.tiling import tiles

    truth = enlarged(image)
    given = corrupted(truth, "random values 30%", seed)
    started = time.perf_counter()
    result = restore(given, quality="fast")
    seconds = time.perf_counter() - started
    peak = _peak_memory() / 2**30
    image, truth = result.image / 255, truth / 255
    error = ((image - truth) ** 2).mean(axis=2)
    seam = np.ones(error.shape, bool)
    for tile in tiles(*truth.shape):
        inner = tuple(slice(s.start + 4, s.stop - 4) for s in tile.core)
        seam[inner] = False
    seam[:4], seam[-4:], seam[:, :4], seam[:, -4:] = (False,) * 4
    print(
        f"4000×3000, random values 30%, fast: {psnr(image, truth):.2f} dB "
        f"in {seconds:.0f} s, peak {peak:.1f} GB; mean square error within 4 pixels "
        f"of a seam {error[seam].mean() / error[~seam].mean():.2f} × that elsewhere"
    )


if __name__ == "__main__":
    path, kind, quality, seed = sys.argv[1:]
    print(json.dumps(_measure(np.load(path), kind, quality, int(seed))))
