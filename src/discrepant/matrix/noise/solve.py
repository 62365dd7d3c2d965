"""From data with noise on every entry to three parts."""

from dataclasses import replace

import numpy as np

from discrepant.linalg import Array
from discrepant.matrix.log import Log
from discrepant.matrix.noise.bins import at_edges
from discrepant.matrix.noise.fit import NoisyFit, Pass
from discrepant.matrix.noise.mixture import fit_mixture, flagged_from, own_scales
from discrepant.matrix.noise.split import Cells, NoisySplit
from discrepant.matrix.program import Program
from discrepant.matrix.spectra import product
from discrepant.matrix.sweep.robust import BINS, COARSE
from discrepant.result import Status


def fit_noise(
    program: Program,
    *,
    sigma: Array | None = None,
    by_column: bool | None = None,
    fdr: float = 0.01,
    rng: np.random.Generator,
    log: Log,
) -> NoisySplit:
    """Split the data of a program into a low-rank part, errors and noise.

    Parameters
    ----------
    program : Program
        The data, and λ for the certificate. Under `psd` the low-rank part is made
        symmetric and positive semidefinite.
    sigma : ndarray of shape (n_columns,), optional
        The noise of each column, where it is known.
    by_column : bool, optional
        Whether each column has noise of its own size; by default the data tell.
    fdr : float
        Share of the flagged cells that may be clean.
    rng, log
        As for `integrate`.
    """
    with program.rows:
        fit = NoisyFit(program, sigma, by_column, rng, log)
        last, done = fit.run()
        return _judged(fit, last, done, fdr)


def _judged(fit: NoisyFit, last: Pass, done: bool, fdr: float) -> NoisySplit:
    """Judge each cell as if it had been left out, and turn all to the caller's unit."""
    model, program, rows = fit.model, fit.model.program, fit.model.rows
    std = (1 / np.sqrt(1 - h) for h in model.leverages())
    columns = zip(model.inverse_noise(), std, strict=True)
    row, column = (np.array(side) for side in columns)
    bins = BINS // COARSE
    swept = rows.tally(
        "left_out",
        (program.unit, model.axis_of_own()),
        low_rank=(model.U, model.C),
        sides=(row, column),
        table=fit.table,
        counts=(bins * (model.own == 0), bins * (model.own == 1)),
        bins=BINS,
    )
    tau = 1.0 if last.mixture is None else last.mixture.tau
    mixture = fit_mixture(
        swept.histogram, 1.0 if fit.told else tau, fit.degrees(), told=fit.told
    )
    ratio = np.full(len(model.sigma), mixture.tau)
    if fit.each and not fit.told:
        ratio = own_scales((swept.by_row, swept.by_column)[model.own].T, mixture)
    cells = Cells(
        (row, column),
        (model.U, model.C),
        fit.table,
        at_edges(mixture.corrupt),
        flagged_from(swept.histogram, mixture, fdr),
    )
    by = model.sigma[:, None]
    U, C = (model.U * by, model.C) if model.own == 0 else (model.U, model.C * by)
    left, right, s = product(U, C) if U.shape[1] else (U, C, np.zeros(0))
    if program.psd and len(s):
        left, right, s = _positive(left, right, s)
    left, right = rows.turn(left, right)
    if fit.rounding(last):
        sentence = "converged: nothing but rounding is left"
    elif done:
        sentence = "converged: fitted at the level of the noise"
    elif fit.log.stopped:
        sentence = "stopped early, as was asked for"
    else:
        sentence = f"took all of {fit.log.max_iter} steps"
    return NoisySplit(
        U=left.astype(rows.dtype),
        singular_values=(s / program.unit).astype(rows.dtype),
        components=np.ascontiguousarray(right.T, rows.dtype),
        noise=(model.sigma * ratio / program.unit).astype(rows.dtype),
        mixture=mixture,
        status=Status(done, sentence),
        history=fit.log.history(),
        program=replace(program),
        cells=cells,
    )


def _positive(U: Array, V: Array, s: Array) -> tuple[Array, Array, Array]:
    """Return the symmetric positive semidefinite part of U diag(s) Vᵀ, of its rank."""
    Q = np.linalg.qr(np.hstack([U, V]))[0]
    core = (Q.T @ U * s) @ (V.T @ Q)
    values, H = np.linalg.eigh((core + core.T) / 2)
    keep = np.argsort(-values)[: len(s)]
    keep = keep[values[keep] > 0]
    vectors = Q @ H[:, keep]
    return vectors, vectors, values[keep]
