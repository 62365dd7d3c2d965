"""Configuration of the documentation, built by `make docs`."""

import re
import shutil
import sys
from pathlib import Path

import discrepant

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
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
autodoc_typehints = "none"  # numpydoc describes the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
suppress_warnings = ["config.cache"]  # functions in the configuration cannot be cached
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
    "navbar_center": [],  # the sidebar shows the whole table of contents
    "footer_end": [],
}
html_sidebars = {"**": ["contents.html"]}


def written_pictures(block, variables, configuration):
    """Include the PNG files that an example wrote in its gallery page."""
    from sphinx_gallery.scrapers import figure_rst

    images = []
    for path in sorted(Path.cwd().glob("*.png")):
        target = Path(next(variables["image_path_iterator"]))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
        images.append(str(target))
    return figure_rst(images, configuration["src_dir"]) if images else ""


def skip_inherited(app, kind, name, member, skip, options):
    """Skip members that are inherited from other packages."""
    source = getattr(member, "fget", None) or getattr(member, "func", None) or member
    return skip or not (getattr(source, "__module__", None) or "").startswith(project)


def keep_exponents_together(app, page, source):
    """Prevent line breaks within numbers such as 9e-14 in table cells."""
    lines = source[0].split("\n")
    for k, line in enumerate(lines):
        if line.startswith("|"):
            parts = line.split("`")  # every second part is code
            for j in range(0, len(parts), 2):
                parts[j] = re.sub(
                    r"(?<=\d)e-(?=\d)", "e\N{NON-BREAKING HYPHEN}", parts[j]
                )
            lines[k] = "`".join(parts)
    source[0] = "\n".join(lines)


def setup(app):
    app.connect("source-read", keep_exponents_together)
    app.connect("autodoc-skip-member", skip_inherited)


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
