"""Names of the experiments and how to load them.

Each module has the default settings in ``Config()`` and smaller ones in
``Config.quick()``. ``run(config, runner)`` returns an `Outcome`: the plotted points as
rows, and the finding as a sentence. ``plot(outcome)`` draws the figure;
``Config.companions`` names the functions that draw further figures. Modules with
``Config.paper()`` also have the full scale of the paper.
"""

from importlib import import_module
from types import ModuleType

# name → (module, settings that select the figure within the module)
CATALOGUE: dict[str, tuple[str, dict[str, str]]] = {
    "fig1a": ("fig1a_learning_curves", {}),
    "fig1b": ("image_figures", {"figure": "fig1b"}),
    "fig2a": ("fig2a_rate_ratio", {}),
    "fig2b": ("fig2bc_phase_transition", {"method": "convex"}),
    "fig2c": ("fig2bc_phase_transition", {"method": "descent"}),
    "beyond-fig2c": ("fig2c_extended", {}),
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
