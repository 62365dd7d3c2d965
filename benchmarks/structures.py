"""Mixtures of structures: `decompose` beside the alternatives, on fresh seeds.

    python benchmarks/structures.py                 all tables
    python benchmarks/structures.py --only blocks   one of them
    python benchmarks/structures.py --seed 7000     other random problems
    python benchmarks/structures.py --only limits --faces FOLDER    with faces

"blocks": low rank, coherent dense blocks and salt, exact if the relative error of X is
below 1e-4. "image": images of low rank behind six occluders at any position and 10%
salt; decibels are those behind the occluders, of four images. "tensor": low rank in one
mode that the method is not given, 10% of the entries wrong. "rows": real tables with 5%
of their rows and 2% of their cells wrong; the area under the ROC curve of a ranking of
rows. A wrong row takes each cell from another row, so that only relations between
columns reveal it. "passes": those to a residual of 1e-7. "weights": exact recovery of
low rank and wrong entries by shape, at the weight λ of `decompose`, at 1/√max(m, n),
and at the former with rows as a third structure. "limits": pictures for which tiles do
not help. "dB" is the error of X behind occluders, F that of the mask of occluders after
a 5×5 median, where X and the data differ by a tenth of the range. Faces are read from
FOLDER/person/photograph, as the ORL database has them.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from record import recorded

from discrepant import decompose
from discrepant.structures import (
    Columns,
    Entries,
    Groups,
    Rows,
    Tiles,
    Unfolding,
    Whole,
)

EXACT = 1e-4  # relative error of X below which it counts as recovered


def low_rank(m, n, rank, rng):
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))


def salt(shape, fraction, rng, size=5.0):
    return size * rng.standard_normal(shape) * (rng.random(shape) < fraction)


def relative(X, truth):
    return np.linalg.norm(X - truth) / np.linalg.norm(truth)


def blocks(seed):
    """Separate low rank from coherent dense blocks and salt."""
    counts = {"tiles and entries": 0, "entries only": 0}
    problems = 0
    for rank in (2, 4, 6, 8):
        for count in (2, 4, 6, 8):
            for repeat in range(2):
                rng = np.random.default_rng([seed, rank, count, repeat])
                X, B = low_rank(128, 128, rank, rng), np.zeros((128, 128))
                for k in rng.choice(64, count, replace=False):
                    i, j = divmod(k, 8)
                    block = np.outer(rng.uniform(1, 2, 16), rng.uniform(1, 2, 16))
                    B[16 * i : 16 * i + 16, 16 * j : 16 * j + 16] = (
                        3 * np.sqrt(rank) * block
                    )
                Y = X + B + salt(X.shape, 0.05, rng)
                mixtures = {
                    "tiles and entries": [Whole(), Tiles(16, 16), Entries()],
                    "entries only": [Whole(), Entries()],
                }
                for name, structures in mixtures.items():
                    result = decompose(Y, structures, max_iter=500)
                    counts[name] += relative(result["whole"], X) < EXACT
                problems += 1
    print("| structures besides low rank | exact | problems |\n| --- | --- | --- |")
    for name, count in counts.items():
        print(f"| {name} | {count} | {problems} |")


def image(seed):
    """Restore an image of low rank behind occluders at any position."""
    print("| image 160×160 | occluders | structures besides low rank ", end="")
    print("| least dB | median dB | passes |\n|" + " --- |" * 6)
    mixtures = {
        "tiles 16×16 at 4 offsets, entries": [Tiles(16, 16, offsets=4), Entries()],
        "tiles 16×16, entries": [Tiles(16, 16), Entries()],
        "entries only": [Entries()],
    }
    for kind, sides in ((tartan, (10, 16)), (cosines, (10, 16)), (tartan, (12, 20))):
        for name, structures in mixtures.items():
            decibels, passes = [], []
            for k in range(4):
                rng = np.random.default_rng([seed, k])
                X = kind(160, rng)
                Y, hidden = occluded(X, sides, rng)
                result = decompose(Y, [Whole(), *structures], tol=1e-5, max_iter=600)
                error = np.mean((result["whole"] - X)[hidden] ** 2)
                decibels.append(10 * np.log10(np.ptp(X) ** 2 / error))
                passes.append(result.n_steps)
            least, middle = np.min(decibels), np.median(decibels)
            label = f"{kind.__name__} | {sides[0]} to {sides[1]} pixels | {name}"
            figures = f"{least:.1f} | {middle:.1f} | {np.mean(passes):.0f}"
            print(f"| {label} | {figures} |", flush=True)


def tartan(n, rng):
    """Return products of stripes: rank 4."""

    def stripes():
        period = rng.integers(10, 20)
        phase, width = rng.integers(period), rng.uniform(0.3, 0.7) * period
        return ((np.arange(n) + phase) % period < width).astype(float)

    layers = [rng.uniform(-1, 1) * np.outer(stripes(), stripes()) for _ in range(3)]
    return 0.5 + sum(layers)


def cosines(n, rng):
    """Return products of cosines: smooth, rank 3."""

    def wave():
        frequency, phase = rng.uniform(1, 8), rng.random()
        return np.cos(2 * np.pi * (frequency * np.linspace(0, 1, n) + phase))

    return sum(rng.uniform(0.5, 1) * np.outer(wave(), wave()) for _ in range(3))


def occluded(X, sides, rng):
    """Return an image with six rectangles and 10% salt, and what these hide."""
    Y, hidden, ends = X.copy(), np.zeros(X.shape, bool), (X.min(), X.max())
    for _ in range(6):
        height, width = rng.integers(sides[0], sides[1] + 1, 2)
        i, j = rng.integers(0, len(X) - height), rng.integers(0, len(X) - width)
        Y[i : i + height, j : j + width] = rng.uniform(*ends)
        hidden[i : i + height, j : j + width] = True
    salted = rng.random(X.shape) < 0.1
    Y[salted] = rng.choice(ends, salted.sum())
    return Y, hidden


def tensor(seed):
    """Identify the mode in which a tensor has low rank."""
    print("| shape | true mode | mode used most | error | error, one wrong unfolding |")
    print("| --- | --- | --- | --- | --- |")
    for shape in ((30, 30, 30), (40, 24, 20)):
        for mode in range(3):
            rng = np.random.default_rng([seed, mode])
            size = shape[mode]
            rest = [n for axis, n in enumerate(shape) if axis != mode]
            T = low_rank(size, int(np.prod(rest)), 3, rng)
            T = np.moveaxis(T.reshape(size, *rest), 0, mode)
            Y = T + salt(shape, 0.1, rng)
            result = decompose(Y, [*map(Unfolding, range(3)), Entries()])
            parts = [result[f"mode {k}"] for k in range(3)]
            most = int(np.argmax([np.linalg.norm(part) for part in parts]))
            other = (mode + 1) % 3
            wrong = decompose(Y, [Unfolding(other), Entries()], max_iter=500)
            print(
                f"| {'×'.join(map(str, shape))} | {mode} | {most} "
                f"| {relative(sum(parts), T):.0e} "
                f"| {relative(wrong[f'mode {other}'], T):.2f} |"
            )


def rows(seed):
    """Rank the rows of real tables by how wrong they are."""
    from sklearn import datasets
    from sklearn.covariance import MinCovDet
    from sklearn.ensemble import IsolationForest
    from sklearn.metrics import roc_auc_score
    from sklearn.neighbors import LocalOutlierFactor

    names = ("wine", "breast_cancer", "diabetes", "iris", "digits")
    methods = ("dual's row norms", "IsolationForest", "LOF", "MCD")
    print(f"| table | {' | '.join(methods)} |\n| --- |" + " --- |" * len(methods))
    means = []
    for k, name in enumerate(names):
        table = getattr(datasets, f"load_{name}")().data[:500].astype(float)
        spread = np.subtract(*np.quantile(table, (0.75, 0.25), axis=0))
        table = (table - np.median(table, axis=0))[:, spread > 0] / spread[spread > 0]
        areas = []
        for repeat in range(4):
            rng = np.random.default_rng([seed, k, repeat])
            Y, wrong = table.copy(), rng.random(len(table)) < 0.05
            wrong[:2] = True
            for j in range(Y.shape[1]):
                Y[wrong, j] = rng.choice(table[:, j], wrong.sum())
            cells = rng.random(Y.shape) < 0.02
            Y[cells] += 10 * rng.standard_normal(cells.sum())
            result = decompose(Y, [Whole(), Rows(), Entries()], max_iter=500)
            forest = IsolationForest(random_state=0).fit(Y)
            local = LocalOutlierFactor().fit(Y)
            covariance = MinCovDet(random_state=0).fit(Y)
            scores = (
                result.score("rows"),
                -forest.score_samples(Y),
                -local.negative_outlier_factor_,
                covariance.mahalanobis(Y),
            )
            areas.append([roc_auc_score(wrong, score) for score in scores])
        means.append(np.mean(areas, axis=0))
        print(f"| {name} | {' | '.join(f'{area:.2f}' for area in means[-1])} |")
    average = np.mean(means, axis=0)
    print(f"| mean | {' | '.join(f'{area:.2f}' for area in average)} |")


def few_tiles(tiles, shape, rng):
    """Return an array with a tenth of its tiles of low rank and the others zero."""
    blocks = tiles.split(np.zeros(shape))
    for k in rng.choice(len(blocks), max(1, len(blocks) // 10), replace=False):
        blocks[k] = low_rank(*blocks.shape[1:], max(1, blocks.shape[1] // 20), rng)
    return tiles.join(blocks, shape)


def mixtures_by_size(n, rng):
    """Yield the name, the data and the structures of four mixtures of n×n matrices."""
    X, size = low_rank(n, n, n // 20, rng), np.sqrt(n)
    wrong = rng.random(n) < 0.1
    columns = X.copy()
    columns[:, wrong] = size * rng.standard_normal((n, wrong.sum()))
    salted = X + salt(X.shape, 0.1, rng, size)
    rows = salted.copy()
    rows[rng.random(n) < 0.02] += size * rng.standard_normal(n)
    tilings = [Tiles(n // 10, n // 10), Tiles(n // 4, n // 4)]
    yield "whole + entries", salted, [Whole(), Entries()]
    yield "whole + columns", columns, [Whole(), Columns()]
    yield "whole + rows + entries", rows, [Whole(), Rows(), Entries()]
    yield (
        "tiles n/10 + tiles n/4",
        sum(few_tiles(t, X.shape, rng) for t in tilings),
        (tilings),
    )


def passes(seed):
    """Count passes to 1e-7 at rank n/20 and 10% wrong."""
    print("| structures | n = 200 | n = 500 |\n| --- | --- | --- |")
    sizes = [mixtures_by_size(n, np.random.default_rng([seed, n])) for n in (200, 500)]
    for problems in zip(*sizes, strict=True):
        results = [decompose(Y, structures) for _, Y, structures in problems]
        ended = ("" if r.status.converged else " (not converged)" for r in results)
        counts = [f"{r.n_steps}{end}" for r, end in zip(results, ended, strict=True)]
        print(f"| {problems[0][0]} | {' | '.join(counts)} |")


def weights(seed):
    """Count exact recoveries of low rank and wrong entries by shape."""
    print("| shape | problems | 2.1/(√m + √n) | 1/√max(m, n) | and rows |")
    print("| --- | --- | --- | --- | --- |")
    total = np.zeros(4, int)
    for m, n in ((240, 40), (60, 180), (100, 100)):
        ours, usual = 2.1 / (np.sqrt(m) + np.sqrt(n)), 1 / np.sqrt(max(m, n))
        mixtures = (
            [Whole(), Entries()],
            [Whole(), Entries(weight=usual / ours)],
            [Whole(), Rows(), Entries()],
        )
        exact = np.zeros(3, int)
        for rank, fraction, repeat in product(
            (0.05, 0.1, 0.15), (0.05, 0.1, 0.2, 0.25), range(2)
        ):
            key = [seed, m, n, int(100 * rank), int(100 * fraction), repeat]
            rng = np.random.default_rng(key)
            X = low_rank(m, n, max(1, int(rank * min(m, n))), rng)
            Y = X + salt(X.shape, fraction, rng)
            results = [decompose(Y, mixture, max_iter=400) for mixture in mixtures]
            exact += [relative(result["whole"], X) < EXACT for result in results]
        print(f"| {m}×{n} | 24 | {' | '.join(map(str, exact))} |", flush=True)
        total += (24, *exact)
    print(f"| all | {' | '.join(map(str, total))} |")


def limits(seed, faces=None):
    """Restore what objects hide in a video, in a photograph and in faces."""
    from scipy.ndimage import median_filter
    from sklearn.datasets import load_sample_images
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(seed)
    street, flower = (image.mean(axis=2) for image in load_sample_images().images)
    light = 1 + 0.1 * np.sin(np.arange(40) / 3)[:, None, None]
    problems = {
        "video, one object": (light * street[100:148, 200:264], 8, False),
        "photograph": (street[None, 100:260, 200:360], 16, True),
        "photograph of a flower": (flower[None, 100:260, 200:360], 16, True),
    }
    if faces is not None:
        problems["faces"] = (photographs(faces), 8, True)
    print("| pictures | structures besides low rank | dB | F |\n" + "| --- " * 4 + "|")
    for label, (X, side, anywhere) in problems.items():
        Y, hidden = hide(X, side, anywhere, rng)
        frame, i, j = np.indices(X.shape)
        tiles = Groups(as_matrix((frame * 1000 + i // side) * 1000 + j // side))
        for name, structures in {
            "tiles and entries": [tiles, Entries()],
            "entries only": [Entries()],
        }.items():
            mixture = [Whole(), *structures]
            result = decompose(as_matrix(Y), mixture, tol=1e-5, max_iter=600)
            fit = result["whole"].T.reshape(X.shape) if len(X) > 1 else result["whole"]
            error = np.mean((fit - X)[hidden] ** 2)
            mask = np.abs(Y - fit) > 0.1 * np.ptp(X)
            score = f1_score(hidden.ravel(), median_filter(mask, (1, 5, 5)).ravel())
            decibels = 10 * np.log10(np.ptp(X) ** 2 / error)
            print(f"| {label} | {name} | {decibels:.1f} | {score:.2f} |", flush=True)


def photographs(folder):
    """Return 100 photographs of faces at half their size, one per frame."""
    from PIL import Image

    files = sorted(Path(folder).glob("*/*.pgm"))[:100]
    return np.array([np.asarray(Image.open(file).reduce(2), float) for file in files])


def as_matrix(frames):
    """Return pixels × frames; a single picture as it is."""
    return frames.reshape(len(frames), -1).T if len(frames) > 1 else frames[0]


def hide(X, side, anywhere, rng):
    """Return pictures behind a textured square each, moving if not anywhere."""
    Y, hidden = X.copy(), np.zeros(X.shape, bool)
    count, height, width = X.shape
    square = rng.uniform(X.min(), X.max(), (side, side))
    for k in range(count):
        for _ in range(6 if count == 1 else 1):
            i, j = rng.integers((height - side, width - side))
            if not anywhere:
                i, j = (height - side) // 2, k * (width - side) // count
            Y[k, i : i + side, j : j + side] = square
            hidden[k, i : i + side, j : j + side] = True
    return Y, hidden


TABLES = {
    "blocks": blocks,
    "image": image,
    "tensor": tensor,
    "rows": rows,
    "passes": passes,
    "weights": weights,
    "limits": limits,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=TABLES, help="one table")
    parser.add_argument("--seed", type=int, default=3000, help="of the problems")
    parser.add_argument("--faces", help="folder of photographs of faces")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # alternatives that fail say so in the tables
    for name, table in TABLES.items():
        if options.only in (None, name):
            print(f"\n## {table.__doc__}\n")
            table(options.seed, *[options.faces] * (table is limits))


if __name__ == "__main__":
    recorded(main)
