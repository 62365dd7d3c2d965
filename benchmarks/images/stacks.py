"""PSNR and recall on stacks of frames, against single frames.

    python benchmarks/images/stacks.py [--videos FOLDER]

Bursts of a photograph, weak hot pixels, and videos, which are read with PyAV. No
constant was chosen on these inputs.
"""

import argparse
from pathlib import Path

import numpy as np
from inputs import timed
from recording import recorded

from discrepant import restore
from discrepant.image.arrays import psnr


def summary(flagged, truth):
    """Return recall, and the fraction of clean values that are flagged, as a text."""
    recall = (flagged & truth).sum() / max(truth.sum(), 1)
    return f"recall {recall:6.1%}, clean flagged {(flagged & ~truth).mean():.3%}"


def with_random_values(stack, fraction, seed):
    """Return a stack with a fraction of random values, and their mask."""
    rng = np.random.default_rng(seed)
    mask = rng.random(stack.shape) < fraction
    largest = np.iinfo(stack.dtype).max
    random = rng.integers(0, largest, stack.shape, endpoint=True).astype(stack.dtype)
    return np.where(mask, random, stack), mask


def compare(name, clean, fraction, seed):
    """Print the results of a stack, and of its frames one by one."""
    given, mask = with_random_values(clean, fraction, seed)
    single, single_seconds = timed(
        lambda: [restore(frame, quality="fast") for frame in given]
    )
    joint, joint_seconds = timed(restore, given, axes="TYX", quality="fast")
    single_image = np.stack([result.image for result in single])
    single_mask = np.stack([result.mask for result in single])
    for kind, image, flagged, seconds in (
        ("single frames", single_image, single_mask, single_seconds),
        ("as a stack", joint.image, joint.mask, joint_seconds),
    ):
        decibels = psnr(image / 255, clean / 255)
        print(
            f"{name:34} {kind}: {decibels:5.2f} dB, {summary(flagged, mask)}, "
            f"{seconds:.0f} s",
            flush=True,
        )


def print_clean(name, clean):
    result = restore(clean, axes="TYX", quality="fast")
    print(f"{name}, clean: {result.mask.mean():.4%} flagged", flush=True)


def bursts(rng):
    """Print the results of shifted and noisy frames of a photograph."""
    from skimage import data

    photograph = data.coins()[40:240, 60:260] / 255
    for shift in (0, 3):
        frames = [np.roll(photograph, shift * t, 1) for t in range(8)]
        noisy = np.stack(frames) + 0.02 * rng.normal(size=(8, *photograph.shape))
        clean = np.clip(255 * noisy, 0, 255).astype(np.uint8)
        name = f"burst, {shift} pixels per frame"
        for fraction in (0.01, 0.3):
            compare(f"{name}, {fraction:.0%}", clean, fraction, 101)
        print_clean(name, clean)


def hot_pixels(rng):
    """Print the recall of weak pixels that are hot in each of 20 frames."""
    background = 2000 + 400 * np.sin(np.arange(160) / 25)[:, None] * np.ones(160)
    hot = rng.random(background.shape) < 0.003
    for deviations in (3, 4, 5):
        noise = rng.normal(size=(20, *background.shape))
        stack = (background + 30 * (noise + deviations * hot)).astype(np.uint16)
        joint = restore(stack, axes="TYX", quality="fast").mask
        single = restore(stack[0], quality="fast").mask
        print(
            f"hot by {deviations} deviations, 20 frames: "
            f"{summary(joint, np.broadcast_to(hot, stack.shape))}; "
            f"single frame {summary(single, hot)}",
            flush=True,
        )


def read_video(path, n_frames=10, rows=160, columns=200):
    """Return the centre of the first frames of a video in grey."""
    import av

    with av.open(str(path)) as video:
        frames = [
            frame.to_ndarray(format="gray")
            for frame, _ in zip(video.decode(video=0), range(n_frames), strict=False)
        ]
    stack = np.stack(frames)
    top, left = (
        max(n - m, 0) // 2
        for n, m in zip(stack.shape[1:], (rows, columns), strict=True)
    )
    return stack[:, top : top + rows, left : left + columns]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--videos", type=Path, help="a folder of .avi files")
    options = parser.parse_args()
    rng = np.random.default_rng(100)
    bursts(rng)
    hot_pixels(rng)
    for path in sorted(options.videos.glob("*.avi")) if options.videos else []:
        clean = read_video(path)
        compare(f"{path.stem}, 5%", clean, 0.05, 102)
        print_clean(path.stem, clean)


if __name__ == "__main__":
    recorded(main)
