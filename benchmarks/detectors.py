"""Stacks, star fields and noise: what frames, detectors and look-alikes tell.

    python benchmarks/detectors.py --stacks [--videos FOLDER]
    python benchmarks/detectors.py --stars
    python benchmarks/detectors.py --denoise

Peers, where installed: astroscrappy (cosmic rays), scikit-image (noise). Videos are
read with PyAV. All is made from fixed seeds; none of these was used to choose.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from record import recorded

from discrepant import restore
from discrepant.image.arrays import psnr


def flags(found: np.ndarray, truth: np.ndarray) -> str:
    """Return how many were found, and how many of the others were touched."""
    recall = (found & truth).sum() / max(truth.sum(), 1)
    return f"found {recall:6.1%}, others touched {(found & ~truth).mean():.3%}"


def spoil(stack: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mask = rng.random(stack.shape) < share
    top = np.iinfo(stack.dtype).max
    random = rng.integers(0, top, stack.shape, endpoint=True).astype(stack.dtype)
    return np.where(mask, random, stack), mask


def compare(name: str, clean: np.ndarray, bad: np.ndarray, mask: np.ndarray) -> None:
    """Print what a stack gives, and its frames one by one."""
    started = time.perf_counter()
    alone = [restore(frame, quality="fast") for frame in bad]
    between = time.perf_counter()
    found = restore(bad, axes="TYX", quality="fast")
    seconds = time.perf_counter() - between
    single = np.stack([a.image for a in alone]), np.stack([a.mask for a in alone])
    for kind, image, marks, took in (
        ("one by one", *single, between - started),
        ("as a stack", found.image, found.mask, seconds),
    ):
        decibels = psnr(image / 255, clean / 255)
        print(
            f"{name:34} {kind}: {decibels:5.2f} dB, {flags(marks, mask)}, {took:.0f} s"
        )


def stacks(videos: Path | None) -> None:
    from skimage import data

    rng = np.random.default_rng(100)
    photograph = data.coins()[40:240, 60:260] / 255
    for shift in (0, 3):
        frames = [np.roll(photograph, shift * t, 1) for t in range(8)]
        noisy = np.stack(frames) + 0.02 * rng.normal(size=(8, *photograph.shape))
        clean = np.clip(255 * noisy, 0, 255).astype(np.uint8)
        for share in (0.01, 0.3):
            bad, mask = spoil(clean, share, 101)
            compare(f"burst, {shift} pixels a frame, {share:.0%}", clean, bad, mask)
        found = restore(clean, axes="TYX", quality="fast")
        print(f"burst, {shift} pixels a frame, clean: {found.mask.mean():.4%} changed")
    hot(rng)
    for path in sorted(videos.glob("*.avi")) if videos else []:
        clean = film(path)
        bad, mask = spoil(clean, 0.05, 102)
        compare(f"{path.stem}, 5%", clean, bad, mask)
        found = restore(clean, axes="TYX", quality="fast")
        print(f"{path.stem}, clean: {found.mask.mean():.4%} changed")


def hot(rng: np.random.Generator) -> None:
    """Print how weak pixels that are hot in each of 20 frames are found."""
    ground = 2000 + 400 * np.sin(np.arange(160) / 25)[:, None] * np.ones(160)
    where = rng.random(ground.shape) < 0.003
    for sigmas in (3, 4, 5):
        noise = rng.normal(size=(20, *ground.shape))
        stack = (ground + 30 * (noise + sigmas * where)).astype(np.uint16)
        found = restore(stack, axes="TYX", quality="fast").mask
        alone = restore(stack[0], quality="fast").mask
        truth = np.broadcast_to(where, stack.shape)
        print(
            f"hot by {sigmas} deviations, 20 frames: {flags(found, truth)}; "
            f"one by one {flags(alone, where)}"
        )


def film(
    path: Path, frames: int = 10, rows: int = 160, columns: int = 200
) -> np.ndarray:
    """Return the middle of some frames of a video in grey."""
    import av

    with av.open(str(path)) as video:
        shown = [
            f.to_ndarray(format="gray")
            for f, _ in zip(video.decode(video=0), range(frames), strict=False)
        ]
    stack = np.stack(shown)
    top, left = (
        max(n - m, 0) // 2
        for n, m in zip(stack.shape[1:], (rows, columns), strict=True)
    )
    return stack[:, top : top + rows, left : left + columns]


def stars(seeds: range) -> None:
    """Print F1 over the hit pixels, and how many star peaks were touched."""
    import astroscrappy
    from stars import FULL, GAIN, READ_NOISE, star_field

    words = {"gain": GAIN, "read_noise": READ_NOISE, "saturation": FULL}
    print("point spread in pixels (standard deviation); F1, star peaks touched")
    for moffat in (False, True):
        for spread in (0.85, 1.0, 1.5, 2.0):
            scores: dict[str, list[tuple[float, int, int]]] = {}
            for seed in seeds:
                made = star_field(seed, spread, moffat=moffat)
                peer, _ = astroscrappy.detect_cosmics(
                    made.image.astype(np.float32),
                    gain=GAIN,
                    readnoise=READ_NOISE,
                    satlevel=0.98 * FULL,
                )
                for name, mask in (
                    ("told", restore(made.image, **words).mask),
                    ("untold", restore(made.image).mask),
                    ("astroscrappy told", peer),
                ):
                    both = (mask & made.rays).sum()
                    f1 = 2 * both / (mask.sum() + made.rays.sum())
                    touched = (mask & made.peaks).sum()
                    scores.setdefault(name, []).append((f1, touched, made.peaks.sum()))
            rows = []
            for name, found in scores.items():
                f1, touched, there = np.array(found).T
                share = touched.sum() / there.sum()
                rows.append(
                    f"{name} {f1.mean():.3f} (least {f1.min():.3f}) {share:.2%}"
                )
            shape = "Moffat" if moffat else "Gauss"
            print(f"{shape:7}{spread:4}: " + "; ".join(rows), flush=True)


def denoise() -> None:
    """Print decibels beside those of peers that are told the noise."""
    from skimage import data
    from skimage.restoration import denoise_nl_means, denoise_wavelet

    for name in ("astronaut", "chelsea", "rocket", "brick"):
        colours = getattr(data, name)()
        grey = colours if colours.ndim == 2 else colours[..., 1]
        truth = grey[60:260, 60:260] / 255
        for sigma in (5, 15, 30):
            rng = np.random.default_rng(200 + sigma)
            noisy = truth + sigma / 255 * rng.normal(size=truth.shape)
            s = sigma / 255
            found = restore(noisy, quality="fast", denoise=True).image
            means = denoise_nl_means(
                noisy, patch_size=7, patch_distance=10, h=0.6 * s, sigma=s
            )
            waves = denoise_wavelet(noisy, sigma=s, rescale_sigma=True)
            each = (psnr(a, truth) for a in (noisy, found, means, waves))
            print(
                "{:10} σ = {:2}: noisy {:.2f}, restore(denoise=True) {:.2f}, non-local "
                "means told σ {:.2f}, wavelets told σ {:.2f}".format(
                    name, sigma, *each
                ),
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stacks", action="store_true")
    parser.add_argument("--videos", type=Path)
    parser.add_argument("--stars", action="store_true")
    parser.add_argument("--denoise", action="store_true")
    asked = parser.parse_args()
    if asked.stacks:
        stacks(asked.videos)
    if asked.denoise:
        denoise()
    if asked.stars:
        stars(range(2000, 2004))


if __name__ == "__main__":
    recorded(main)
