"""Background and foreground against what one would use instead.

    python benchmarks/video.py quality      F-measure on composites of five kinds
    python benchmarks/video.py hand         and on real frames with hand-made truth
    python benchmarks/video.py speed        frames a second, decoding included
    python benchmarks/video.py batch        a whole array, in products Y @ V
    python benchmarks/video.py memory       of a long stream
    python benchmarks/video.py stream       RobustPCA.partial_fit on an exact stream

Rivals: OpenCV's MOG2, KNN, CNT and GSOC with their defaults, shadows that they name
not counted as foreground, and the temporal median of the whole video with the
threshold that is best in hindsight. OpenCV's run through a video once, and again having
seen all of it backwards: GSOC takes hundreds of frames to forget its first. Each is
scored as it is and after a 5×5 median, and the best of the four counts. pybgs has no
wheel in the registry, and its source needs OpenCV's to build: left out. Footage:
`--footage`, by default ../shared/data/video.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from record import recorded
from video_hand import hand_scenes
from video_scenes import (
    KINDS,
    Scene,
    composite,
    emptied,
    load,
    median,
    walkers,
)

from discrepant import RobustPCA, separate
from discrepant.video.io.video_file import VideoFile, VideoWriter
from discrepant.video.stream import Stream

FOOTAGE = Path("../shared/data/video")
OPENCV = {
    "MOG2": lambda: cv2.createBackgroundSubtractorMOG2(),
    "KNN": lambda: cv2.createBackgroundSubtractorKNN(),
    "CNT": lambda: cv2.bgsegm.createBackgroundSubtractorCNT(),
    "GSOC": lambda: cv2.bgsegm.createBackgroundSubtractorGSOC(),
}
FIRST = 20  # seed; lower ones were looked at while the constants were chosen
SHADOW = 127  # how OpenCV marks it


def smoothed(masks: np.ndarray) -> np.ndarray:
    return np.stack([cv2.medianBlur(m.astype(np.uint8), 5) > 0 for m in masks])


def opencv(name: str, frames: np.ndarray, *, seen: bool) -> np.ndarray:
    """Return the masks of a rival, which may have seen the video backwards before."""
    if name == "GSOC" and frames.ndim == 3:
        frames = np.repeat(frames[..., None], 3, axis=-1)
    model = OPENCV[name]()
    for f in frames[::-1] if seen else ():
        model.apply(np.ascontiguousarray(f))
    return np.stack([model.apply(np.ascontiguousarray(f)) > SHADOW for f in frames])


def best_median(scene: Scene) -> float:
    """Score the temporal median at the threshold that is best in hindsight."""
    middle = median(scene.frames).astype(np.int16)
    away = np.stack([np.abs(f - middle).astype(np.uint8) for f in scene.frames])
    away = away.max(axis=-1) if away.ndim == 4 else away
    scores = [0.0]
    for threshold in range(6, 100, 4):
        masks = away > threshold
        scores += [scene.f_measure(masks), scene.f_measure(smoothed(masks))]
    return max(scores)


def scores(scene: Scene) -> dict[str, float]:
    """Return the F-measure of everyone on a scene."""
    streamed = np.stack([f.foreground for f in separate(iter(scene.frames))])
    found = {
        "discrepant": scene.f_measure(separate(scene.frames).foreground),
        "streaming": scene.f_measure(streamed),
    }
    for name in OPENCV:
        runs = [opencv(name, scene.frames, seen=seen) for seen in (False, True)]
        found[name] = max(
            scene.f_measure(masks) for run in runs for masks in (run, smoothed(run))
        )
    return {**found, "median": best_median(scene)}


def table(rows: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(rows.values())))
    print(f"{'':24s}" + "".join(f"{name:>12s}" for name in names))
    for row, found in rows.items():
        print(f"{row:24s}" + "".join(f"{found[name]:12.3f}" for name in names))


def quality(footage: Path, seeds: int) -> None:
    shop, stairs = load(footage / "shop.avi"), load(footage / "escalator.avi")
    # The far end of the corridor is never empty; the stairs are, in the end.
    places = {
        "shop": (emptied(shop)[:, 56:], walkers(stairs, (60, 1500), 8), False),
        "escalator": (stairs[165:], walkers(shop, (60, 2500), 8), True),
    }
    rows: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        all_of_kind = []
        for place, (ground, films, waving) in places.items():
            for seed in range(FIRST, FIRST + seeds):
                scene = composite(
                    f"{kind}, {place} {seed}", kind, ground, films, seed, waving=waving
                )
                rows[scene.name] = scores(scene)
                all_of_kind.append(rows[scene.name])
                table({scene.name: rows[scene.name]})
        rows[kind] = _mean(all_of_kind)
    print()
    means = {kind: rows[kind] for kind in KINDS}
    table({**means, "mean": _mean(list(means.values()))})


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def hand(footage: Path) -> None:
    for scene in hand_scenes(footage):
        table({scene.name: scores(scene)})


def speed(footage: Path) -> None:
    frames = load(footage / "shop.avi")
    for rows, columns, colour, count in (
        (240, 320, False, 600),
        (720, 1280, True, 150),
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "video.mp4"
            with VideoWriter(path, 25, (rows, columns)) as writer:
                for k in range(count):
                    image = cv2.resize(frames[k % len(frames)], (columns, rows))
                    if colour:
                        image = cv2.applyColorMap(image[..., 0], cv2.COLORMAP_BONE)
                    writer.write(image if colour else image[..., 1])
            for _ in Stream(VideoFile(path)).process():
                break  # compiled, or read from the cache
            start = time.perf_counter()
            done = sum(1 for _ in Stream(VideoFile(path)))
            spent = time.perf_counter() - start
            kind = "colour" if colour else "grey"
            print(f"{columns}×{rows} {kind}: {done / spent:.0f} frames a second")


def batch(footage: Path) -> None:
    frames = load(footage / "shop.avi", height=240)[:, :, :320, 1]
    frames = np.concatenate([frames, frames[::-1]])[:307]
    Y = frames.reshape(len(frames), -1).astype(np.float64)
    V = np.random.default_rng(0).standard_normal((Y.shape[1], 10))
    separate(frames[:20])
    spans = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(5):
            Y @ V
        product = (time.perf_counter() - start) / 5
        start = time.perf_counter()
        separate(frames)
        spans.append((time.perf_counter() - start) / product)
    print(f"307 frames of {frames.shape[2]}×240: {np.median(spans):.0f} products Y @ V")


def memory(footage: Path, count: int = 10_000) -> None:
    scene = cv2.resize(load(footage / "shop.avi")[0][..., 1], (640, 480))
    rng = np.random.default_rng(0)
    grain = rng.integers(0, 5, (9, 480, 640), dtype=np.uint8)

    def frames():
        for k in range(count):
            frame = scene + grain[k % 9]
            frame[100:180, (3 * k) % 600 : (3 * k) % 600 + 40] = 30
            yield frame

    for frame in separate(frames()):
        if frame.number in (50, 200, 1000, 5000, count - 1):
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"frame {frame.number:5d}: {most:.0f} MB at most so far", flush=True)


def stream() -> None:
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        bases = rng.standard_normal((2, 5, 400))
        model = RobustPCA(random_state=0)
        errors = {}
        for start in range(0, 600, 10):
            basis = bases[int(start >= 300)]
            rows = rng.standard_normal((10, 5)) @ basis
            wrong = rng.random(rows.shape) < 0.1
            rows[wrong] += rng.normal(0, 20, wrong.sum())
            model.partial_fit(rows)
            if model.n_samples_seen_ >= 20:
                errors[model.n_samples_seen_] = subspace_error(model.components_, basis)
        exact = [k for k, e in errors.items() if e <= 1e-6]
        late = max(errors[k] for k in errors if 100 <= k <= 300 or k >= 400)
        print(
            f"seed {seed}: exact from row {exact[0]}; after the change at row 300 from "
            f"row {min(k for k in exact if k > 300)}; worst error beyond 100 rows of "
            f"either {late:.0e}"
        )


def subspace_error(found: np.ndarray, basis: np.ndarray) -> float:
    if len(found) != len(basis):
        return 1.0
    Q = np.linalg.qr(basis.T)[0]
    return float(np.linalg.norm(found - (found @ Q) @ Q.T, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = ("quality", "hand", "speed", "batch", "memory", "stream")
    parser.add_argument("part", choices=parts)
    parser.add_argument("--footage", type=Path, default=FOOTAGE)
    parser.add_argument("--seeds", type=int, default=2)
    told = parser.parse_args()
    if told.part == "quality":
        quality(told.footage, told.seeds)
    elif told.part == "stream":
        stream()
    else:
        {"hand": hand, "speed": speed, "batch": batch, "memory": memory}[told.part](
            told.footage
        )


if __name__ == "__main__":
    recorded(main)
