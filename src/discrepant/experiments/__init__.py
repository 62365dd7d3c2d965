"""The paper's figures: one module each, with a Config, `run` and `plot`.

A module states its default settings in ``Config()`` and smaller ones in
``Config.quick()``. ``run(config, runner)`` returns an `Outcome`: the plotted points as
rows, and the finding as a sentence. ``plot(outcome)`` draws it; ``companions`` of a
Config name further functions that draw what goes with it. A module that has
``Config.paper()`` knows two scales.
"""

from importlib import import_module
from types import ModuleType

# name → (module, settings that tell it from its sister in the same module)
CATALOGUE: dict[str, tuple[str, dict[str, str]]] = {
    "fig1a": ("learning_curves", {}),
    "fig1b": ("images", {"figure": "fig1b"}),
    "fig2a": ("ratio", {}),
    "fig2b": ("phase", {"method": "convex"}),
    "fig2c": ("phase", {"method": "descent"}),
    "beyond-fig2c": ("beyond", {}),
    "fig3": ("images", {"figure": "fig3"}),
    "fig4": ("images", {"figure": "fig4"}),
    "fig5": ("images", {"figure": "fig5"}),
    "theorem1": ("theorem1", {}),
    "regression": ("regression", {}),
    "table1": ("comparison", {}),
}


def load(name: str) -> tuple[ModuleType, dict[str, str]]:
    """Return the module of an experiment and the settings that select it."""
    module, settings = CATALOGUE[name]
    return import_module(f"discrepant.experiments.{module}"), settings
