"""How the documentation is built: `make docs`."""

import re
import shutil
import sys
from pathlib import Path

import discrepant

sys.path.insert(0, str(Path(__file__).parent))
import recorded

recorded.write()

project = "discrepant"
author = "The discrepant developers"
copyright = author
version = release = discrepant.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/README.rst", "recorded.md"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # numpydoc has them in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
suppress_warnings = ["config.cache"]  # the function below cannot be kept
linkcheck_anchors = False

html_theme = "pydata_sphinx_theme"
html_title = "discrepant"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_center": [],  # the contents stand at the side, all of them
    "footer_end": [],
}
html_sidebars = {"**": ["contents.html"]}


def written_pictures(block, variables, configuration):
    """Show what an example wrote: the examples save pictures, as a person would."""
    from sphinx_gallery.scrapers import figure_rst

    shown = []
    for path in sorted(Path.cwd().glob("*.png")):
        target = Path(next(variables["image_path_iterator"]))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
        shown.append(str(target))
    return figure_rst(shown, configuration["src_dir"]) if shown else ""


def skip_foreign(app, kind, name, member, skip, options):
    """Leave out what scikit-learn and Python themselves bring along."""
    source = getattr(member, "fget", None) or getattr(member, "func", None) or member
    return skip or not (getattr(source, "__module__", None) or "").startswith(project)


def whole_numbers(app, page, source):
    """Keep a number like 9e-14 in one piece in the cells of a table."""
    lines = source[0].split("\n")
    for k, line in enumerate(lines):
        if line.startswith("|"):
            parts = line.split("`")  # every other one is code
            for j in range(0, len(parts), 2):
                parts[j] = re.sub(
                    r"(?<=\d)e-(?=\d)", "e\N{NON-BREAKING HYPHEN}", parts[j]
                )
            lines[k] = "`".join(parts)
    source[0] = "\n".join(lines)


def setup(app):
    app.connect("source-read", whole_numbers)
    app.connect("autodoc-skip-member", skip_foreign)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": (written_pictures,),
    "reset_modules": (),
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}
