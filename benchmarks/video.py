"""Quality, speed and memory of `separate`, beside OpenCV's background subtractors.

    python benchmarks/video.py cdnet        scenes in the layout of ChangeDetection.net
    python benchmarks/video.py quality      F-measure on composites of five kinds
    python benchmarks/video.py hand         F-measure on real frames with drawn masks
    python benchmarks/video.py speed        frames per second, decoding included
    python benchmarks/video.py batch        a whole array, in products Y @ V
    python benchmarks/video.py memory       memory of a long stream
    python benchmarks/video.py stream       RobustPCA.partial_fit on an exact stream

Compared are OpenCV's MOG2, KNN, CNT and GSOC with their defaults, their shadows not
counted as foreground, and the temporal median of the whole video at the threshold best
in hindsight. On composites, OpenCV's methods process a video once, and again after
processing it backwards, because GSOC takes hundreds of frames to forget its first. Each
is scored as it is and after a 5×5 median, and the best of the four counts. On scenes of
`cdnet` each method processes the frames once. Footage: `--footage`, by default
../shared/data/video; `cdnet` also takes a folder of scenes or one scene.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
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
from discrepant.video.io.frame_source import FrameSource, IterableSource
from discrepant.video.io.video_file import ImageFolder, VideoFile, VideoWriter
from discrepant.video.separate import Stream

FOOTAGE = Path("../shared/data/video")
OPENCV = {
    "MOG2": lambda: cv2.createBackgroundSubtractorMOG2(),
    "KNN": lambda: cv2.createBackgroundSubtractorKNN(),
    "CNT": lambda: cv2.bgsegm.createBackgroundSubtractorCNT(),
    "GSOC": lambda: cv2.bgsegm.createBackgroundSubtractorGSOC(),
}
FIRST = 20  # seed; lower ones were used while the constants were chosen
SHADOW = 127  # how OpenCV marks it


def smoothed(masks: np.ndarray) -> np.ndarray:
    return np.stack([cv2.medianBlur(m.astype(np.uint8), 5) > 0 for m in masks])


def opencv(name: str, frames: np.ndarray, *, backwards_first: bool) -> np.ndarray:
    """Return the masks of a method of OpenCV, perhaps after the reversed video."""
    if name == "GSOC" and frames.ndim == 3:
        frames = np.repeat(frames[..., None], 3, axis=-1)
    model = OPENCV[name]()
    for f in frames[::-1] if backwards_first else ():
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
    """Return the F-measure of each method on a scene."""
    streamed = np.stack([f.foreground for f in separate(iter(scene.frames))])
    result = {
        "discrepant": scene.f_measure(separate(scene.frames).foreground),
        "streaming": scene.f_measure(streamed),
    }
    for name in OPENCV:
        runs = [
            opencv(name, scene.frames, backwards_first=first) for first in (False, True)
        ]
        result[name] = max(
            scene.f_measure(masks) for run in runs for masks in (run, smoothed(run))
        )
    return {**result, "median": best_median(scene)}


def table(rows: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(rows.values())))
    print(f"{'':24s}" + "".join(f"{name:>12s}" for name in names))
    for row, scores in rows.items():
        print(f"{row:24s}" + "".join(f"{scores[name]:12.3f}" for name in names))


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


def cdnet(folder: Path) -> None:
    """Score scenes with input/, groundtruth/, ROI.bmp and temporalROI.txt."""
    if (folder / "cdnet").is_dir():
        folder = folder / "cdnet"
    scenes = [folder] if (folder / "input").is_dir() else sorted(folder.iterdir())
    print(f"{'':14s}{'':14s}{'P':>7s}{'R':>7s}{'F':>7s}{'frames/s':>10s}")
    for scene in scenes:
        images = ImageFolder(scene / "input")
        rows = {
            "discrepant": _cdnet_scores(scene, _own_masks(images)),
            "streaming": _cdnet_scores(scene, _own_masks(IterableSource(iter(images)))),
        }
        for name in OPENCV:
            rows[name] = _cdnet_scores(scene, _opencv_masks(scene, name, median=0))
        rows["GSOC, median"] = _cdnet_scores(
            scene, _opencv_masks(scene, "GSOC", median=5)
        )
        for name, (precision, recall, f, rate) in rows.items():
            scores = f"{precision:7.3f}{recall:7.3f}{f:7.3f}{rate:10.0f}"
            print(f"{scene.name:14s}{name:14s}{scores}", flush=True)


def _own_masks(source: FrameSource) -> Iterator[np.ndarray]:
    stream = Stream(source)
    for _ in stream.process():
        yield stream.separator.mask


def _opencv_masks(scene: Path, name: str, median: int) -> Iterator[np.ndarray]:
    model = OPENCV[name]()
    for image in ImageFolder(scene / "input"):
        mask = model.apply(np.ascontiguousarray(image[..., ::-1]))
        mask = (mask > SHADOW).astype(np.uint8)
        yield (cv2.medianBlur(mask, median) if median else mask) > 0


def _cdnet_scores(scene: Path, masks: Iterator[np.ndarray]) -> tuple[float, ...]:
    """Return precision, recall, F and frames per second, as the benchmark scores.

    Only frames of the temporal range and pixels of the ROI count; labels 85 (outside)
    and 170 (unknown) are ignored, 255 is foreground.
    """
    first, last = map(int, (scene / "temporalROI.txt").read_text().split())
    roi = cv2.imread(str(scene / "ROI.bmp"), cv2.IMREAD_GRAYSCALE) > 0
    hits = false = missed = count = 0
    seconds, start = 0.0, time.perf_counter()
    for number, mask in enumerate(masks, 1):
        seconds += time.perf_counter() - start
        count += 1
        if first <= number <= last:
            path = scene / "groundtruth" / f"gt{number:06d}.png"
            label = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
            scored = roi & (label != 85) & (label != 170)
            truth = label == 255
            hits += np.count_nonzero(mask & truth & scored)
            false += np.count_nonzero(mask & ~truth & scored)
            missed += np.count_nonzero(~mask & truth & scored)
        start = time.perf_counter()
    f = 2 * hits / max(2 * hits + false + missed, 1)
    precision, recall = hits / max(hits + false, 1), hits / max(hits + missed, 1)
    return precision, recall, f, count / seconds


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
                break  # compiled, or loaded from the cache
            start = time.perf_counter()
            done = sum(1 for _ in Stream(VideoFile(path)))
            spent = time.perf_counter() - start
            kind = "colour" if colour else "grey"
            print(f"{columns}×{rows} {kind}: {done / spent:.0f} frames per second")


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
    noise = rng.integers(0, 5, (9, 480, 640), dtype=np.uint8)

    def frames():
        for k in range(count):
            frame = scene + noise[k % 9]
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


def subspace_error(components: np.ndarray, basis: np.ndarray) -> float:
    if len(components) != len(basis):
        return 1.0
    Q = np.linalg.qr(basis.T)[0]
    return float(np.linalg.norm(components - (components @ Q) @ Q.T, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = ("cdnet", "quality", "hand", "speed", "batch", "memory", "stream")
    parser.add_argument("part", choices=parts)
    parser.add_argument("--footage", type=Path, default=FOOTAGE)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if options.part == "quality":
        quality(options.footage, options.seeds)
    elif options.part == "stream":
        stream()
    else:
        measure = {
            "cdnet": cdnet,
            "hand": hand,
            "speed": speed,
            "batch": batch,
            "memory": memory,
        }
        measure[options.part](options.footage)


if __name__ == "__main__":
    recorded(main)
