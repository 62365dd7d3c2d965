"""The demonstration: a corrupted matrix and a corrupted photograph, with pictures."""

import time
from pathlib import Path

import numpy as np

from discrepant.matrix.estimator import RobustPCA
from discrepant.outputs import staged, write_json
from discrepant.paper.problems import corrupted_matrix, corrupted_share, relative_error
from discrepant.plotting import decomposition, pictures

OUTPUTS = ("matrix.png", "photograph.png", "summary.json")


def demo(directory: Path, *, overwrite: bool, show: bool, seed: int = 0) -> str:
    """Recover a 400×300 matrix of rank 8, 20% corrupted and 10% missing.

    Then, where scikit-image is installed, a photograph of which half of the values are
    random. Writes pictures and a summary to the folder; returns the summary as text.
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
        image = photograph(scratch / "photograph.png", seed=seed, show=show)
        summary["photograph"] = image
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
        f"  picture          {directory / 'matrix.png'}\n{_told(image, directory)}"
    )


def photograph(path: Path, *, seed: int, show: bool) -> dict[str, float] | None:
    """Restore a photograph and draw it; returns decibels and seconds, if it can be."""
    try:
        from skimage import data
    except ImportError:
        return None
    from discrepant.image.arrays import psnr
    from discrepant.image.restore.front import restore

    truth = data.astronaut()[:256, 96:352]
    rng = np.random.default_rng(seed)
    wrong = rng.random(truth.shape) < 0.5
    observed = np.where(wrong, rng.integers(0, 256, truth.shape), truth)
    observed = observed.astype(np.uint8)
    started = time.perf_counter()
    result = restore(observed, quality="fast", progress=show)
    seconds = time.perf_counter() - started
    panels = {"observed": observed, "restored": result.image, "truth": truth}
    pictures(panels).savefig(path)
    before, after = (
        round(psnr(image / 255, truth / 255), 2) for image in (observed, result.image)
    )
    return {"before": before, "after": after, "seconds": round(seconds, 3)}


def _told(image: dict[str, float] | None, directory: Path) -> str:
    if image is None:
        return "A photograph too, with scikit-image: pip install 'discrepant[restore]'."
    return (
        "A photograph, half of its values replaced by random ones; told nothing.\n"
        f"  from {image['before']:.1f} dB to {image['after']:.1f} dB in "
        f"{image['seconds']:.1f} s\n"
        f"  picture          {directory / 'photograph.png'}"
    )
