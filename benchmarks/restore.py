"""How well and how fast images are restored, beside what people use today.

    python benchmarks/restore.py [--images DIR] [--names F16,Baboon] [--csv table.csv]
        [--large] [--units [512,12]] [--tuning [ROOM]]

Every method sees the same corrupted image in the same run, and `restore` is told
nothing. The median filter is granted its best size in hindsight; "0/255 inpainted" is
told that corruption is exactly 0 or 255; DIP-ℓ1, the network under absolute values, is
granted the step of its best PSNR. At full size DIP-ℓ1 would take days, so a second
table repeats all methods on the middle of each image (``--middle``), with a network of
width 32. A cell is PSNR of the whole image / of the interior, without the outer 8
pixels, in dB. "steps" is the time of "best" in steps of the paper's network (width 128)
on an image of the same size; "changed" is the share of values that differ from the
input.

``--large`` restores 4000×3000 values of the first image, repeated, instead: time,
memory, and the error along the seams of the tiles against that elsewhere.

``--units`` measures time by one `scipy.ndimage.median_filter` of size 5 over all
channels of the same image, on one thread, in the same run: the first image's middle
512×512, and 4000×3000 of it, repeated, under what "as fast as the corruption is rare"
means; and peak memory over the image in single precision. ``--units 512`` leaves out
what takes minutes.

``--tuning`` halves and doubles each constant of `restore` in turn, on the middle 96×96
of each image, and prints by how many decibels the mean over the images changes under
each kind of corruption, and which share of the values of clean images is then changed.
With the name of a room (``detect``, ``patches``, …) only its constants are tried.

Without ``--images``, four photographs that come with scikit-learn, matplotlib and
scikit-image and that took no part in the making of `restore`.
"""

import argparse
import csv
import time
import warnings
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import numpy as np
from scipy.ndimage import median_filter

from discrepant import restore
from discrepant.image import Settings, adaptive_median, dip_l1, inpaint_extremes, median
from discrepant.image.arrays import MARGIN, psnr
from discrepant.image.files.formats import is_image, read
from discrepant.image.network.architecture import INPUT_CHANNELS, Network
from discrepant.image.noise import random_impulses, salt_and_pepper
from discrepant.image.restore.tiles import windows

PAPER = {
    ("F16", 0.1): 34.91,
    ("F16", 0.3): 34.39,
    ("F16", 0.5): 31.60,
    ("F16", 0.7): 26.99,
    ("Peppers", 0.5): 30.76,
    ("Baboon", 0.5): 21.38,
    ("kodim03", 0.5): 32.47,
}
ROOMS = (
    *("smooth", "lines", "judge", "mode", "detect", "screen", "borders", "tone"),
    *("patches", "clusters", "tiles", "front"),
)
NOISES = {"salt-and-pepper": salt_and_pepper, "random values": random_impulses}
COLUMNS = (
    "image, corruption",
    "paper",
    "median",
    "adaptive median",
    "0/255 inpainted",
    "DIP-ℓ1",
    "fast",
    "s",
    "best",
    "s",
    "steps",
    "changed",
)


def eight_bits(image):
    return np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)


def photographs(folder, names):
    """Return clean images by name: those of a folder, or those of other packages."""
    if folder is None:
        from matplotlib import cbook
        from skimage import data
        from sklearn.datasets import load_sample_image

        with cbook.get_sample_data("grace_hopper.jpg") as file:
            portrait = read(Path(file.name)).values
        found = {
            "china": load_sample_image("china.jpg"),
            "flower": load_sample_image("flower.jpg"),
            "grace_hopper": portrait,
            "motorcycle": data.stereo_motorcycle()[0],
        }
    else:
        files = sorted(path for path in folder.iterdir() if is_image(path))
        found = {path.stem: read(path).values for path in files}
    for name, image in found.items():
        if image.dtype != np.uint8 or image.ndim != 3:
            raise SystemExit(f"{name}: colour images of 8 bits are compared here.")
    return {k: v[..., :3] for k, v in found.items() if not names or k in names}


def middle(image, size):
    rows, columns = (max(0, n - size) // 2 for n in image.shape[:2])
    return image[rows : rows + size, columns : columns + size]


def cases(name, levels):
    """Yield kind and level of the corruptions, and last none at all."""
    for kind in NOISES:
        for level in levels:
            yield kind, level
    if name in {key[0] for key in PAPER}:
        for paper_name, level in PAPER:
            if paper_name == name and level not in levels:
                yield "salt-and-pepper", level
    yield "nothing", 0.0


def corrupted(truth, kind, level, seed):
    if kind == "nothing":
        return truth
    return eight_bits(NOISES[kind](truth / 255, level, random_state=seed)[0])


def timed(function, *args, **kwargs):
    started = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - started


def step_seconds(shape):
    """Return the time of one step of the paper's network."""
    import torch

    network = Network(channels=shape[2], width=128)
    noise = torch.rand(1, INPUT_CHANNELS, *network.padded(*shape[:2]))

    def step():
        network.zero_grad()
        network(noise).square().mean().backward()

    step()  # the first one warms up
    return min(timed(step)[1] for _ in range(2))


def measure(truth, given, with_network, steps):
    """Return PSNR, interior PSNR, seconds and share changed of every method."""
    exact = truth / 255
    window = max((3, 5, 7, 9), key=lambda k: psnr(median(given, k), exact))
    methods = {
        "median": lambda: median(given, window),
        "adaptive median": lambda: adaptive_median(given),
        "0/255 inpainted": lambda: inpaint_extremes(given),
        "fast": lambda: restore(given, quality="fast").image / 255,
        "best": lambda: restore(given).image / 255,
    }
    if with_network:
        settings = Settings(width=32, optimiser="adam", rate=0.01, steps=steps)
        methods["DIP-ℓ1"] = lambda: (
            dip_l1(given, settings, truth=exact, every=10, device="cpu").best
        )
    found = {}
    for method, run in methods.items():
        image, seconds = timed(run)
        found[method] = {
            "psnr": psnr(image, exact),
            "interior": psnr(image, exact, MARGIN),
            "seconds": seconds,
            "changed": float(np.mean(eight_bits(image) != given)),
        }
    return found


def line(name, kind, level, found, step):
    """Return a row of the table."""
    what = kind if kind == "nothing" else f"{kind} {level:.0%}"
    cells = [f"{name}, {what}"]
    paper = PAPER.get((name, level)) if kind == "salt-and-pepper" else None
    cells.append("" if paper is None else f"{paper:.2f}")
    for method in COLUMNS[2:6]:
        cells.append(_dB(found[method]) if method in found else "")
    for method in ("fast", "best"):
        cells += [f"**{_dB(found[method])}**", f"{found[method]['seconds']:.1f}"]
    cells.append(f"{found['best']['seconds'] / step:.1f}")
    cells.append(f"{found['best']['changed']:.3%}" if kind == "nothing" else "")
    return f"| {' | '.join(cells)} |"


def _dB(score):
    return f"{score['psnr']:.2f} / {score['interior']:.2f}"


def enlarged(image):
    """Return 4000×3000 of an image, repeated."""
    image = image[:3000, :4000]
    missing = [(0, n - m) for n, m in zip((3000, 4000), image.shape, strict=False)]
    return np.pad(image, [*missing, (0, 0)], mode="symmetric")


def hot(truth, share, seed):
    """Return an image with hot pixels, in all channels."""
    out = truth.copy()
    out[np.random.default_rng(seed).random(truth.shape[:2]) < share] = 255
    return out


def units(image, sizes, seed):
    """Print what each kind of work costs, in medians of size 5."""
    import resource

    print(
        "| image | corruption | quality | units | s | unit, s | dB | changed | memory |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    kinds = {
        "nothing": lambda truth: truth,
        "0.5% hot": lambda truth: hot(truth, 0.005, seed),
        "random values 30%": lambda truth: corrupted(truth, "random values", 0.3, seed),
        "random values 50%": lambda truth: corrupted(truth, "random values", 0.5, seed),
    }
    for size in sizes:
        truth = middle(image, 512) if size == "512" else enlarged(image)
        for kind, spoil in kinds.items():
            quality = "best" if kind.endswith("50%") else "fast"
            if quality == "best" and size != "512":
                continue
            given = spoil(truth)
            unit = min(timed(median_filter, given, (5, 5, 1))[1] for _ in range(3))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            found, seconds = timed(restore, given, quality=quality)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            exact = np.array_equal(found.image, truth)
            cells = (
                *("×".join(map(str, truth.shape)), kind, quality),
                *(f"{seconds / unit:.1f}", f"{seconds:.1f}", f"{unit:.2f}"),
                "exact" if exact else f"{psnr(found.image / 255, truth / 255):.2f}",
                f"{np.mean(found.image != given):.3%}",
                # Peaks only grow: that of an earlier row hides a smaller one.
                f"{1024 * peak / (4 * truth.size):.1f} ×" if peak else "",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


def large(image, seed):
    """Print how a 4000×3000 image fares, with 30% of its values random."""
    import resource

    truth = enlarged(image)
    given = corrupted(truth, "random values", 0.3, seed)
    found, seconds = timed(restore, given, quality="fast")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    image, truth = found.image / 255, truth / 255
    error = ((image - truth) ** 2).mean(axis=2)
    seam = np.ones(error.shape, bool)
    for window in windows(*truth.shape):
        inner = tuple(slice(s.start + 4, s.stop - 4) for s in window.own)
        seam[inner] = False
    seam[:4], seam[-4:], seam[:, :4], seam[:, -4:] = (False,) * 4
    print(
        f"4000×3000, random values 30%, fast: {psnr(image, truth):.2f} dB "
        f"in {seconds:.0f} s, peak {peak:.1f} GB; mean square error within 4 pixels "
        f"of a seam {error[seam].mean() / error[~seam].mean():.2f} × that elsewhere"
    )


def trials(truth, seed):
    """Return a part of an image under each kind of corruption, on [0, 255]."""
    rng = np.random.default_rng(seed)
    lines = truth.copy()
    lines[20], lines[:, 33] = 0, 255
    lines[0] = rng.integers(0, 256, lines[0].shape)
    hit = rng.random(truth.shape) < 0.03
    zingers = np.where(hit, 1e6 * rng.random(truth.shape), truth)
    return {
        **{f"{kind} 50%": corrupted(truth, kind, 0.5, seed) for kind in NOISES},
        "dead lines": lines,
        "zingers 3%": zingers.astype(np.float32),
        "nothing": truth,
    }


def scores(images, seed):
    """Return the mean PSNR under each corruption, and the share changed under none."""
    found = {}
    for truth in images:
        for kind, given in trials(truth, seed).items():
            image = restore(given, quality="fast").image
            score = psnr(image / 255, truth / 255)
            if kind == "nothing":
                score = float(np.mean(image != truth))
            found.setdefault(kind, []).append(score)
    return {kind: float(np.mean(values)) for kind, values in found.items()}


def scaled(value, factor):
    if isinstance(value, tuple):
        return tuple(scaled(one, factor) for one in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def tuning(images, seed, only):
    """Print what each constant is worth."""
    modules = [import_module(f"discrepant.image.restore.{room}") for room in ROOMS]
    parts = [middle(image, 96) for image in images]
    usual = scores(parts, seed)
    print("| constant | value | " + " | ".join(usual) + " |")
    print("| --- | --- |" + " --- |" * len(usual))
    _print_scores("as it is", "", usual, dict.fromkeys(usual, 0.0), "")
    for module in modules:
        room = module.__name__.split(".")[-1]
        there = getattr(module, "TUNING", None)
        if there is None or (only != "all" and room != only):
            continue
        for field in fields(there):
            for factor in (0.5, 2):
                value = scaled(getattr(there, field.name), factor)
                _put(modules, there, changed := replace(there, **{field.name: value}))
                try:
                    found = scores(parts, seed)
                except Exception as error:  # beyond what the constant can be
                    print(f"| {room}.{field.name} | {value} | {type(error).__name__} |")
                else:
                    _print_scores(f"{room}.{field.name}", value, found, usual, "+")
                finally:
                    _put(modules, changed, there)


def _put(modules, old, new):
    """Put one tuning in the place of another, by whatever name it was imported."""
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def _print_scores(name, value, found, usual, sign):
    cells = [
        f"{score:.3%}" if kind == "nothing" else f"{score - usual[kind]:{sign}.2f}"
        for kind, score in found.items()
    ]
    print(f"| {name} | {value} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=Path)
    parser.add_argument("--names", default="", help="Only these, with commas.")
    parser.add_argument("--levels", default="0.3,0.5")
    parser.add_argument("--middle", type=int, default=128, help="0: no second table.")
    parser.add_argument("--middle-steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--units", nargs="?", const="512,12", metavar="SIZES")
    parser.add_argument("--tuning", nargs="?", const="all", metavar="ROOM")
    options = parser.parse_args()
    levels = [float(level) for level in options.levels.split(",")]
    ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    for given in (ramp, corrupted(ramp, "random values", 0.3, 0)):
        restore(np.dstack([given] * 3))  # compile
    images = photographs(options.images, options.names.split(",") * bool(options.names))
    if options.units:
        units(next(iter(images.values())), options.units.split(","), options.seed)
        return
    if options.large:
        large(next(iter(images.values())), options.seed)
        return
    if options.tuning:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd constants make odd results
            tuning(images.values(), options.seed, options.tuning)
        return
    rows = []

    def show(name, truth, kind, level, with_network=False):
        given = corrupted(truth, kind, level, options.seed)
        found = measure(truth, given, with_network, options.middle_steps)
        print(line(name, kind, level, found, step_of[truth.shape]), flush=True)
        for method, score in found.items():
            case = {"image": name, "size": len(truth), "kind": kind, "level": level}
            rows.append({**case, "method": method, **score})

    shapes = {image.shape for image in images.values()}
    parts = {name: middle(image, options.middle) for name, image in images.items()}
    if options.middle:
        shapes |= {part.shape for part in parts.values()}
    step_of = {shape: step_seconds(shape) for shape in shapes}
    header = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
    print(header)
    for name, truth in images.items():
        for kind, level in cases(name, levels):
            show(name, truth, kind, level)
    if options.middle:
        print(f"\nThe middle {options.middle}×{options.middle} of each:\n\n{header}")
        for name, truth in parts.items():
            for kind in NOISES:
                show(name, truth, kind, 0.5, with_network=True)
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
