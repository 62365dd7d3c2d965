"""Effect of each constant: ``python benchmarks/images/photographs.py --constants``.

Each constant of `restore` is halved and doubled in turn, on the central 96×96 pixels of
each image.
"""

from importlib import import_module

import numpy as np
from inputs import NOISES, centre, corrupted

from discrepant import restore
from discrepant.image.arrays import psnr

MODULES = (
    *("intensity_scale", "tiling", "restore", "restore_tiles", "fill"),
    *("core.thin_plate", "core.lines", "core.border_lines", "core.mixture"),
    *("core.local_mode", "core.residual_scale", "core.similar_patches"),
    *("core.photograph", "core.calibration", "graphics.clustering"),
)


def cases(truth, seed):
    """Return an image under each kind of corruption, on [0, 255]."""
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
    """Return the mean PSNR of each case, and the fraction of clean values changed."""
    by_kind = {}
    for truth in images:
        for kind, given in cases(truth, seed).items():
            image = restore(given, quality="fast").image
            score = psnr(image / 255, truth / 255)
            if kind == "nothing":
                score = float(np.mean(image != truth))
            by_kind.setdefault(kind, []).append(score)
    return {kind: float(np.mean(values)) for kind, values in by_kind.items()}


def scaled(value, factor):
    if isinstance(value, tuple):
        return tuple(scaled(one, factor) for one in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def is_constant(name, value):
    numbers = value if isinstance(value, tuple) else (value,)
    are_numbers = all(type(number) in (int, float) for number in numbers)
    return name.isupper() and not name.startswith("_") and are_numbers


def constants_of(module):
    """Return the constants that a module defines itself, in order."""
    source = open(module.__file__, encoding="utf-8").read()
    return {
        name: value
        for name, value in vars(module).items()
        if is_constant(name, value) and f"\n{name} = " in source
    }


def print_effects(images, seed, only):
    """Print the change of each score if a constant is halved or doubled.

    ``only`` is the name of one module, or "all". Constants that are default values of
    parameters, or from which others were computed on import, keep their effect there.
    """
    modules = [import_module(f"discrepant.image.restore.{name}") for name in MODULES]
    parts = [centre(image, 96) for image in images]
    usual = scores(parts, seed)
    print("| constant | value | " + " | ".join(usual) + " |")
    print("| --- | --- |" + " --- |" * len(usual))
    _print_scores("unchanged", "", usual, dict.fromkeys(usual, 0.0), "")
    for module in modules:
        module_name = module.__name__.split(".")[-1]
        if only not in ("all", module_name):
            continue
        for name, value in constants_of(module).items():
            for factor in (0.5, 2):
                changed = scaled(value, factor)
                label = f"{module_name}.{name}"
                users = [other for other in modules if _imports(other, module, name)]
                _set(users, name, changed)
                try:
                    result = scores(parts, seed)
                except Exception as error:  # the constant is out of its range
                    print(f"| {label} | {changed} | {type(error).__name__} |")
                else:
                    _print_scores(label, changed, result, usual, "+")
                finally:
                    _set(users, name, value)


def _imports(other, module, name):
    """Return whether a module has a constant of another, or is that module."""
    if other is module:
        return True
    text = open(other.__file__, encoding="utf-8").read()
    defined_here = f"\n{name} = " in text
    return hasattr(other, name) and not defined_here


def _set(modules, name, value):
    for module in modules:
        setattr(module, name, value)


def _print_scores(name, value, result, usual, sign):
    cells = [
        f"{score:.3%}" if kind == "nothing" else f"{score - usual[kind]:{sign}.2f}"
        for kind, score in result.items()
    ]
    print(f"| {name} | {value} | " + " | ".join(cells) + " |", flush=True)
