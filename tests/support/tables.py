"""Synthetic tables with known errors."""

import numpy as np
import pandas as pd


def correlated(n=300, p=6, rank=2, noise=0.2, seed=0):
    """Return an array of correlated columns: low rank plus noise."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p))
    return mixed + noise * rng.normal(size=(n, p))


def corrupted(n=300, p=6, count=15, seed=0):
    """Return an array with a few gross errors, and the mask of these errors."""
    rng = np.random.default_rng(seed + 1)
    table = correlated(n, p, seed=seed)
    corrupt = np.zeros((n, p), bool)
    corrupt[rng.choice(n, count, replace=False), rng.integers(0, p, count)] = True
    table[corrupt] += rng.choice([-8, 8], count)
    return table, corrupt


def frame_of(values):
    """Return an array as a data frame with one-letter column names."""
    return pd.DataFrame(values, columns=list("abcdefgh")[: values.shape[1]])


def sensors(n=600, seed=0):
    """Return a sensor table, the masks of its errors and missing cells, and the truth.

    The table has columns in different units, times, row numbers and text.
    """
    rng = np.random.default_rng(seed)
    day = np.sin(np.arange(n) * 2 * np.pi / 96) + 0.3 * rng.normal(size=n)
    wet = np.cumsum(rng.normal(size=n)) / 8
    load = rng.normal(size=n)
    factors = np.column_stack([day, wet, load])
    weights = rng.normal(size=(3, 9))
    values = factors @ weights + 0.1 * rng.normal(size=(n, 9))
    units = np.array([1, 100, 0.001, 5, 1e6, 0.3, 12, 1e-4, 40])
    offsets = np.array([20, 1013, 0.4, 50, 3e6, 7, 230, 1e-3, 400])
    truth = values * units + offsets
    uniform = rng.random(truth.shape)
    missing, corrupt = uniform > 0.95, uniform < 0.03
    observed = truth.copy()
    scale = units * values.std(axis=0)
    error = rng.choice([-1, 1], truth.shape) * rng.uniform(4, 10, truth.shape) * scale
    observed[corrupt] += error[corrupt]
    observed[missing] = np.nan
    frame = pd.DataFrame(observed, columns=[f"sensor_{k}" for k in range(9)])
    frame.insert(0, "time", pd.date_range("2024-01-01", periods=n, freq="15min"))
    frame.insert(1, "reading", np.arange(n) + 70_000)
    frame["station"] = rng.choice(["north", "south"], n)
    return frame, corrupt, missing, truth
