"""What each constant of `restore` is worth: ``python benchmarks/restore.py --tuning``.

Each is halved and doubled in turn, on the middle 96×96 of each image.
"""

from dataclasses import fields, replace
from importlib import import_module

import numpy as np
from restore_cases import NOISES, corrupted, middle

from discrepant import restore
from discrepant.image.arrays import psnr

ROOMS = (
    *("smooth", "lines", "judge", "mode", "detect", "screen", "borders", "tone"),
    *("patches", "clusters", "tiles", "front"),
)


def trials(truth, seed):
    """Return a part of an image under each kind of corruption, on [0, 255]."""
    rng = np.random.default_rng(seed)
    lines = truth.copy()
    lines[20], lines[:, 33] = 0, 255
    lines[0] = rng.integers(0, 256, lines[0].shape)
    hit = rng.random(truth.shape) < 0.03
    zingers = np.where(hit, 1e6 * rng.random(truth.shape), truth)
    return {
        **{f"{kind} 50%": corrupted(truth, kind, 0.5, seed) for kind in NOISES},
        "dead lines": lines,
        "zingers 3%": zingers.astype(np.float32),
        "nothing": truth,
    }


def scores(images, seed):
    """Return the mean PSNR under each corruption, and the share changed under none."""
    found = {}
    for truth in images:
        for kind, given in trials(truth, seed).items():
            image = restore(given, quality="fast").image
            score = psnr(image / 255, truth / 255)
            if kind == "nothing":
                score = float(np.mean(image != truth))
            found.setdefault(kind, []).append(score)
    return {kind: float(np.mean(values)) for kind, values in found.items()}


def scaled(value, factor):
    if isinstance(value, tuple):
        return tuple(scaled(one, factor) for one in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def tuning(images, seed, only):
    """Print what each constant is worth."""
    modules = [import_module(f"discrepant.image.restore.{room}") for room in ROOMS]
    parts = [middle(image, 96) for image in images]
    usual = scores(parts, seed)
    print("| constant | value | " + " | ".join(usual) + " |")
    print("| --- | --- |" + " --- |" * len(usual))
    _print_scores("as it is", "", usual, dict.fromkeys(usual, 0.0), "")
    for module in modules:
        room = module.__name__.split(".")[-1]
        there = getattr(module, "TUNING", None)
        if there is None or (only != "all" and room != only):
            continue
        for field in fields(there):
            for factor in (0.5, 2):
                value = scaled(getattr(there, field.name), factor)
                _put(modules, there, changed := replace(there, **{field.name: value}))
                try:
                    found = scores(parts, seed)
                except Exception as error:  # beyond what the constant can be
                    print(f"| {room}.{field.name} | {value} | {type(error).__name__} |")
                else:
                    _print_scores(f"{room}.{field.name}", value, found, usual, "+")
                finally:
                    _put(modules, changed, there)


def _put(modules, old, new):
    """Put one tuning in the place of another, by whatever name it was imported."""
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def _print_scores(name, value, found, usual, sign):
    cells = [
        f"{score:.3%}" if kind == "nothing" else f"{score - usual[kind]:{sign}.2f}"
        for kind, score in found.items()
    ]
    print(f"| {name} | {value} | " + " | ".join(cells) + " |", flush=True)
