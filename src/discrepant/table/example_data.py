"""A synthetic sensor table with known errors."""

from typing import Any

import numpy as np

from discrepant.core.linalg import Array

# Name and unit → offset, size of the signal, noise, number of decimals.
CHANNELS = {
    "air °C": (14.0, 6.0, 0.25, 2),
    "soil °C": (11.0, 3.0, 0.1, 2),
    "humidity %": (62.0, 11.0, 0.9, 1),
    "pressure hPa": (1013.0, 7.0, 0.3, 1),
    "wind m/s": (6.0, 1.6, 0.12, 2),
    "light lx": (21000.0, 9000.0, 420.0, 0),
    "battery V": (3.7, 0.12, 0.006, 3),
    "current mA": (41.0, 9.0, 0.5, 1),
    "flow l/min": (240.0, 55.0, 2.5, 1),
    "vibration mm/s": (2.4, 0.5, 0.03, 3),
    "CO2 ppm": (480.0, 60.0, 3.0, 0),
    "inlet K": (291.0, 5.0, 0.2, 2),
}
# Smallest error, in the noise of its column.
MIN_ERROR = 8.0


def sensor_table(rows: int = 600, random_state: int = 0) -> tuple[Any, Array]:
    """Return a synthetic table of twelve sensors driven by three common factors.

    Each sensor has its own unit, offset and noise; a time, a record number and the name
    of a site come with it. Of the readings, 3% are wrong (spikes,
    mirrored values, a factor of ten, stuck at zero) and 5% missing.

    Parameters
    ----------
    rows : int
        Number of readings, ten minutes apart.
    random_state : int
        The same seed gives the same table.

    Returns
    -------
    table : DataFrame
        The readings.
    wrong : ndarray of bool
        The cells that were corrupted; of the table's shape.

    Examples
    --------
    >>> from discrepant.table.example_data import sensor_table
    >>> table, wrong = sensor_table(100)
    >>> table.shape, int(wrong.sum())
    ((100, 15), 36)
    """
    import pandas as pd

    rng = np.random.default_rng(random_state)
    hours = np.arange(rows) / 6
    weather = np.cumsum(rng.standard_normal(rows)) * 0.1
    weather = (weather - weather.mean()) / (weather.std() or 1.0)
    load = np.sign(np.sin(2 * np.pi * hours / 31)) + 0.5 * rng.standard_normal(rows)
    factors = np.stack([np.sqrt(2) * np.sin(2 * np.pi * hours / 24), weather, load])
    loadings = rng.standard_normal((3, len(CHANNELS)))
    loadings /= np.linalg.norm(loadings, axis=0)
    offset, size, noise, decimals = np.array(list(CHANNELS.values())).T
    clean = offset + size * (factors.T @ loadings)  # (rows, channels)
    values = clean + noise * rng.standard_normal(clean.shape)
    cells = rng.permutation(values.size)
    wrong = np.zeros(values.size, bool)
    wrong[cells[: round(0.03 * values.size)]] = True
    missing = np.zeros(values.size, bool)
    missing[cells[len(cells) - round(0.05 * values.size) :]] = True
    wrong, missing = wrong.reshape(values.shape), missing.reshape(values.shape)
    spikes = clean + size * rng.uniform(-6, 6, clean.shape)
    kinds = np.stack([spikes, 2 * offset - clean, 10 * clean, np.zeros_like(clean)])
    kind = rng.choice(4, clean.shape, p=(0.6, 0.2, 0.1, 0.1))
    errors = np.take_along_axis(kinds, kind[None], axis=0)[0]
    near = np.abs(errors - clean) < MIN_ERROR * noise
    beyond = MIN_ERROR * noise * rng.uniform(1, 3, clean.shape)
    errors = np.where(near, clean + np.sign(errors - clean) * beyond, errors)
    values = np.where(wrong, errors, values)
    values[missing] = np.nan
    times = pd.date_range("2024-03-01", periods=rows, freq="10min")
    table = pd.DataFrame(
        {
            "time": times,
            "record": 100_000 + np.arange(rows),
            "site": rng.choice(["north", "south", "dam"], rows),
            **{
                name: np.round(values[:, place], int(decimals[place]))
                for place, name in enumerate(CHANNELS)
            },
        }
    )
    return table, np.pad(wrong, ((0, 0), (3, 0)))
