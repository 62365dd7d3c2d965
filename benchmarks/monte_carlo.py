"""Compare the speed of the Monte Carlo experiments with a plain NumPy loop.

    python benchmarks/monte_carlo.py [--problems 16]

Solves problems of the fig2c grid one after the other by a plain NumPy version of the
paper's algorithm, then the same problems as `discrepant reproduce fig2c` does. Prints
the ratio of the times and the median relative difference of the errors.
"""

import argparse
import time

import numpy as np
from record import recorded

from discrepant.experiments.fig2bc_success_area import Config, solve_grid_point
from discrepant.experiments.runner import Runner
from discrepant.paper.synthetic import corrupted_matrix, relative_error


def plain(y, *, alpha, tau, steps, seed):
    # The start that `recover` draws from this seed, so that the errors can be compared.
    rng = np.random.default_rng(np.random.default_rng(seed).integers(2**63))
    n = len(y)
    U = 1e-4 * rng.standard_normal((n, n))
    g = 1e-4 * rng.standard_normal((n, n))
    h = g.copy()
    for _ in range(steps):
        r = U @ U.T + g * g - h * h - y
        U = U - tau * ((r + r.T) / 2) @ U
        g, h = g - alpha * tau * r * g, h + alpha * tau * r * h
    return U @ U.T


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=16)
    count = parser.parse_args().problems
    config = Config()
    (n,) = config.sizes
    rng = np.random.default_rng(0)
    tasks = [
        {
            "n": n,
            "method": "descent",
            "rank": int(rng.choice(config.ranks)),
            "fraction": float(rng.choice(config.fractions)),
            "trial": k,
        }
        for k in range(count)
    ]
    runner = Runner(jobs=-1)
    runner.map(solve_grid_point, tasks[:2], config)  # start the processes

    started = time.perf_counter()
    errors = []
    for task in tasks:
        where = [0, task["rank"], round(1000 * task["fraction"]), task["trial"]]
        problem = corrupted_matrix(
            n, task["rank"], task["fraction"], random_state=where
        )
        X = plain(
            problem.observed,
            alpha=np.sqrt(n),
            tau=config.step,
            steps=config.steps,
            seed=[*where, 1],
        )
        errors.append(relative_error(X, problem.low_rank))
    one_by_one = time.perf_counter() - started

    started = time.perf_counter()
    results = runner.map(solve_grid_point, tasks, config)
    together = time.perf_counter() - started

    ours = np.array([row["error"] for row in results])
    relative = np.abs(ours - errors) / np.array(errors)
    disagreements = np.sum(
        (ours < config.success) != (np.array(errors) < config.success)
    )
    print(f"{count} problems of {n}×{n}, {config.steps} steps each")
    print(f"plain NumPy loop, one after the other  {one_by_one:7.1f} s")
    print(f"discrepant reproduce fig2c             {together:7.1f} s")
    print(f"ratio                                  {one_by_one / together:7.2f}")
    print(f"median relative difference of errors   {np.median(relative):7.1e}")
    print(f"problems with a different outcome      {disagreements:7d}")


if __name__ == "__main__":
    recorded(main)
