"""How well and how fast images are restored, beside what people use today.

    python benchmarks/restore.py --images DIR [--names F16,Baboon] [--quality fast,best]
        [--kinds salt-and-pepper,random] [--levels 0.3,0.5] [--csv table.csv]

Every method sees the same corrupted image in the same run. The median filter is granted
its best size in hindsight; "told" knows that corruption is exactly 0 or 255, finds it
and calls `skimage.restoration.inpaint_biharmonic`; restore is told nothing. Without
--images, photographs that ship with scikit-image are used. "steps" is the time in steps
of the paper's network (width 128) on an image of the same size, where it is there.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import median_filter
from skimage import data, io
from skimage.restoration import inpaint_biharmonic

from discrepant import restore

PAPER = {
    ("F16", 0.1): 34.91,
    ("F16", 0.3): 34.39,
    ("F16", 0.5): 31.60,
    ("F16", 0.7): 26.99,
    ("Peppers", 0.5): 30.76,
    ("Baboon", 0.5): 21.38,
    ("kodim03", 0.5): 32.47,
}
MARGIN = 8


def psnr(image, truth):
    error = np.mean((image.astype(float) - truth) ** 2)
    return 10 * np.log10(255**2 / error) if error else np.inf


def scores(image, truth):
    inside = slice(MARGIN, -MARGIN)
    return psnr(image, truth), psnr(image[inside, inside], truth[inside, inside])


def corrupt(truth, kind, level, seed):
    """Return a corrupted copy; each value, pixel or line is hit by itself."""
    rng = np.random.default_rng(seed)
    hit = rng.random(truth.shape) < level
    if kind == "salt-and-pepper":
        values = np.where(rng.random(truth.shape) < 0.5, 0, 255)
    elif kind == "random":
        values = rng.integers(0, 256, truth.shape)
    elif kind == "pixels":  # salt-and-pepper on all channels of a pixel at once
        hit[:] = rng.random((*truth.shape[:2], 1)) < level
        values = np.broadcast_to(
            np.where(rng.random((*truth.shape[:2], 1)) < 0.5, 0, 255), truth.shape
        )
    elif kind == "hot":
        values = np.full(truth.shape, 255)
    elif kind == "lines":  # a share of dead rows and columns, each of one value
        hit = np.zeros(truth.shape, bool)
        values = np.zeros(truth.shape, int)
        for axis in (0, 1):
            dead = np.flatnonzero(rng.random(truth.shape[axis]) < level / 2)
            for k in dead:
                line = (slice(None),) * axis + (k,)
                hit[line], values[line] = True, rng.integers(0, 256)
    else:
        raise SystemExit(f"Unknown kind {kind!r}.")
    return np.where(hit, values, truth).astype(np.uint8)


def median(image, truth):
    """Return the median filter whose size is best in hindsight."""
    size = [(k, k) + (1,) * (image.ndim - 2) for k in (3, 5, 7, 9)]
    return max((median_filter(image, s) for s in size), key=lambda x: psnr(x, truth))


def adaptive_median(image, largest=11):
    """Return the median in a window that grows until its median is typical."""
    from scipy.ndimage import maximum_filter, minimum_filter

    out = image.copy()
    todo = np.ones(image.shape, bool)
    for k in range(3, largest + 1, 2):
        size = (k, k) + (1,) * (image.ndim - 2)
        low, middle, high = (
            f(image, size) for f in (minimum_filter, median_filter, maximum_filter)
        )
        typical = todo & (low < middle) & (middle < high)
        keep = (low < image) & (image < high)
        out = np.where(typical & ~keep, middle, out)
        todo &= ~typical
    return np.where(todo, middle, out)


def told(image):
    """Return the image with every 0 and 255 inpainted."""
    planes = image[..., None] if image.ndim == 2 else image
    filled = [
        inpaint_biharmonic(planes[..., c] / 255, np.isin(planes[..., c], (0, 255)))
        for c in range(planes.shape[2])
    ]
    return np.rint(255 * np.clip(np.stack(filled, -1), 0, 1)).reshape(image.shape)


def step_seconds(shape):
    """Return the time of one step of the paper's network, or None."""
    try:
        import torch

        from discrepant.image import Network
    except (ImportError, AttributeError):
        return None
    rows, columns = (-(-n // 32) * 32 for n in shape[:2])
    channels = shape[2] if len(shape) == 3 else 1
    network = Network(channels=channels, width=128)
    noise = torch.rand(1, 32, rows, columns)
    for _ in range(2):  # the first one warms up
        started = time.perf_counter()
        network(noise).square().mean().backward()
        seconds = time.perf_counter() - started
    return seconds


def images(folder, names):
    if folder is None:
        found = {
            name: getattr(data, name)() for name in ("astronaut", "coffee", "chelsea")
        }
    else:
        files = sorted(p for p in folder.iterdir() if p.suffix in (".png", ".tif"))
        found = {path.stem: io.imread(path) for path in files}
    found = {k: v[..., :3] if v.ndim == 3 else v for k, v in found.items()}
    return {k: v for k, v in found.items() if not names or k in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=Path)
    parser.add_argument("--names", default="")
    parser.add_argument("--kinds", default="salt-and-pepper,random,clean")
    parser.add_argument("--levels", default="0.3,0.5")
    parser.add_argument("--quality", default="fast,best")
    parser.add_argument("--rivals", default="median,adaptive,told")
    parser.add_argument("--size", type=int, help="Crop to this many rows and columns.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    small = np.eye(48, dtype=np.uint8)  # compile
    restore(small, quality="fast")
    restore(np.dstack([small] * 3), quality="fast")
    table = []
    for name, truth in images(
        args.images, args.names.split(",") * (args.names != "")
    ).items():
        if args.size:
            truth = truth[: args.size, : args.size]
        step = step_seconds(truth.shape)
        for kind in args.kinds.split(","):
            levels = [0.0] if kind == "clean" else map(float, args.levels.split(","))
            for level in levels:
                noise = "random" if kind == "clean" else kind
                given = corrupt(truth, noise, level, args.seed)
                methods = {}
                rivals = args.rivals.split(",") if kind != "clean" else []
                if "median" in rivals:
                    methods["median"] = lambda g=given, t=truth: median(g, t)
                if "adaptive" in rivals:
                    methods["adaptive median"] = lambda g=given: adaptive_median(g)
                if "told" in rivals:
                    methods["told"] = lambda g=given: told(g)
                for quality in args.quality.split(","):
                    methods[f"restore {quality}"] = lambda g=given, q=quality: (
                        restore(g, quality=q).image
                    )
                for method, run in methods.items():
                    started = time.perf_counter()
                    out = run()
                    seconds = time.perf_counter() - started
                    whole, inside = scores(out, truth)
                    row = {
                        "image": name,
                        "kind": kind,
                        "level": level,
                        "method": method,
                        "psnr": round(whole, 2),
                        "interior": round(inside, 2),
                        "changed": round(float(np.mean(out != given)), 5),
                        "seconds": round(seconds, 1),
                        "steps": round(seconds / step, 1) if step else "",
                        "paper": PAPER.get((name, level), "")
                        if kind == "salt-and-pepper"
                        else "",
                    }
                    if not table:
                        print(*row, sep="\t")
                    print(*row.values(), sep="\t", flush=True)
                    table.append(row)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
