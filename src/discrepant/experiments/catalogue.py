"""Names of the experiments and how to load them.

Each module has the default settings in ``Config()`` and smaller ones in
``Config.quick()``. ``run(config, runner)`` returns an `Outcome`: the plotted points as
a table, and the finding as a sentence. ``plot(outcome)`` draws the figure. Modules with
``Config.paper()`` also have the full scale of the paper.
"""

from importlib import import_module
from types import ModuleType
from typing import Any

# name → (module, settings that select the figure within the module)
CATALOGUE: dict[str, tuple[str, dict[str, Any]]] = {
    "fig1a": ("fig1a_learning_curves", {}),
    "fig1b": ("image_figures", {"figure": "fig1b"}),
    "fig2a": ("fig2a_rate_ratio", {}),
    "fig2b": ("fig2bc_success_area", {"figure": "fig2b"}),
    "fig2c": ("fig2bc_success_area", {"figure": "fig2c"}),
    "beyond-fig2c": (
        "fig2bc_success_area",
        {
            "figure": "beyond-fig2c",
            "sizes": (50, 100),
            "trials": 4,
            "ranks": (1, 5, 9, 13, 17, 21, 25),
            "fractions": (0.05, 0.15, 0.25, 0.35, 0.45, 0.55),
        },
    ),
    "fig3": ("image_figures", {"figure": "fig3"}),
    "fig4": ("image_figures", {"figure": "fig4"}),
    "fig5": ("image_figures", {"figure": "fig5"}),
    "theorem1": ("theorem1", {}),
    "regression": ("appendix_a_regression", {}),
    "table1": ("table1_comparison", {}),
    "structures": ("structures", {}),
}


def load(name: str) -> tuple[ModuleType, dict[str, str]]:
    """Return the module of an experiment and the settings that select it."""
    module, settings = CATALOGUE[name]
    return import_module(f"discrepant.experiments.{module}"), settings
