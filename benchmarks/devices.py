"""Arrays on a device against the compiled passes on the same data, in one run.

    python benchmarks/devices.py                 tensors of torch on the processor
    python benchmarks/devices.py --device cuda   or on an accelerator
    python benchmarks/devices.py --library jax   or another library

The problems are those of `benchmarks/matrix.py`, once without noise and once with noise
of a tenth of the entries' deviation. Seconds are those of `fit` and of both parts, the
shorter of two runs after a small one. "Apart" is the largest difference between the two
low-rank parts, over the deviation of the entries; "crossed" is what all transfers to
the host came to, over the size of the data, and the largest of them.
"""

import argparse
import importlib
import warnings

import numpy as np
from matrix import make, timed
from record import recorded

from discrepant import RobustPCA
from discrepant.core.device_arrays import Place, place_of

PROBLEMS = [(2000, 2000, 20), (20000, 500, 10)]
LIBRARIES = {"torch": "torch", "cupy": "cupy", "jax": "jax.numpy"}


def fitted(Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pca = RobustPCA(random_state=0).fit(Y)
    return pca, pca.low_rank_, pca.sparse_


class Traffic:
    """Counts what is fetched from a device."""

    def __enter__(self):
        self.sizes, self.fetch = [], Place.fetch

        def counted(place, values):
            self.sizes.append(int(np.prod(values.shape)))
            return self.fetch(place, values)

        Place.fetch = counted
        return self

    def __exit__(self, *error):
        Place.fetch = self.fetch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=LIBRARIES, default="torch")
    parser.add_argument("--device")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--seed", type=int, default=110)
    told = parser.parse_args()
    xp = importlib.import_module(LIBRARIES[told.library])
    where = {} if told.device is None else {"device": told.device}

    def away(Y):
        return xp.asarray(Y, **where)

    small = make(200, 100, 3, 0.1, 0.0, told.seed)[0].astype(told.dtype)
    for data in (small, small + 0.1 * np.sin(np.arange(100.0)).astype(told.dtype)):
        fitted(data), fitted(away(data))
    print("| problem | rank | error | apart | seconds | × compiled | crossed |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for m, n, rank in PROBLEMS:
        for noise in (0.0, 0.1):
            Y, X = make(m, n, rank, 0.1, 0.0, told.seed)
            rng = np.random.default_rng(told.seed + 1)
            Y += noise * np.sqrt(rank) * rng.standard_normal(Y.shape)
            Y = Y.astype(told.dtype)
            here, (one, low, _) = timed(fitted, Y, repeats=2)
            tensor = away(Y)
            with Traffic() as traffic:
                there, (two, part, _) = timed(fitted, tensor, repeats=2)
            found = place_of(part).fetch(part)
            error = np.linalg.norm(found - X) / np.linalg.norm(X)
            apart = np.abs(found - low).max() / np.sqrt(rank)
            print(
                f"| {m}×{n}, rank {rank}, noise {noise} | {one.rank_}, {two.rank_} "
                f"| {error:.1e} | {apart:.1e} | {there:.2f} | {there / here:.1f} "
                f"| {sum(traffic.sizes) / 2 / Y.size:.1f}, "
                f"{max(traffic.sizes) / Y.size:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    recorded(main)
