"""The demonstration: a corrupted, incomplete matrix recovered, with a picture."""

import time
from pathlib import Path

import numpy as np

from discrepant.estimators import RobustPCA
from discrepant.outputs import staged, write_json
from discrepant.plotting import decomposition
from discrepant.problems import corrupted_matrix, corrupted_share, relative_error

OUTPUTS = ("matrix.png", "summary.json")


def demo(directory: Path, *, overwrite: bool, show: bool, seed: int = 0) -> str:
    """Recover a 400×300 matrix of rank 8, 20% corrupted and 10% missing.

    Writes a picture and a summary to the folder; returns the summary as text.
    """
    shape, rank, share, missing = (400, 300), 8, 0.2, 0.1
    problem = corrupted_matrix(shape, rank, share, missing=missing, random_state=seed)
    with staged(directory, OUTPUTS, overwrite=overwrite) as scratch:
        started = time.perf_counter()
        pca = RobustPCA(random_state=seed, verbose=show).fit(problem.observed)
        seconds = time.perf_counter() - started
        picture = decomposition(
            problem.observed, pca.low_rank_, pca.sparse_, problem.low_rank
        )
        picture.savefig(scratch / "matrix.png")
        summary = {
            "shape": shape,
            "rank": {"true": rank, "found": pca.rank_},
            "corrupted": {
                "true": share,
                "found": corrupted_share(pca.sparse_, problem.observed),
            },
            "missing": float(np.isnan(problem.observed).mean()),
            "relative_error": relative_error(pca.low_rank_, problem.low_rank),
            "certificate": {
                "gap": pca.certificate_.gap,
                "feasibility": pca.certificate_.feasibility,
            },
            "steps": pca.n_iter_,
            "seconds": round(seconds, 3),
        }
        write_json(scratch / "summary.json", summary)
    return (
        f"A {shape[0]}×{shape[1]} matrix of rank {rank}, {share:.0%} corrupted, "
        f"{missing:.0%} missing; told none of this.\n"
        f"  rank found       {pca.rank_}\n"
        f"  corrupted found  {summary['corrupted']['found']:.1%}"  # type: ignore[index]
        " of the observed entries\n"
        f"  relative error   {summary['relative_error']:.1e} of the true matrix\n"
        f"  certificate      {pca.certificate_}\n"
        f"  ended            {pca.status_}, in {seconds:.1f} s\n"
        f"  picture          {directory / 'matrix.png'}"
    )
