"""The documentation site: ``make docs`` builds it to docs/_build/html, with warnings as errors."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "extensions"))
import anchortm

project = "anchortm"
author = "The anchortm developers"
copyright = "2026, the anchortm developers"  # noqa: A001 - Sphinx's name
release = version = anchortm.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "sphinx-mathjax-offline",
    "gallery_panels",
    "model_pages",
]
templates_path = ["_templates"]  # of the generated pages of the API
exclude_patterns = ["_build", "_templates", "extensions", "paper", "pictures"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = False
default_role = "code"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "substitution"]
# numbers on pages are counted, not typed
n_examples = len(list(Path(__file__).parent.glob("../examples/gallery/plot_*.py")))
myst_substitutions = {
    "version": anchortm.__version__,
    "n_examples": n_examples,
    "n_models": sum(hasattr(getattr(anchortm, name), "predict_distribution") for name in anchortm._HOME)
    - sum(name.endswith("CV") for name in anchortm._HOME),
    "n_datasets": sum(name.startswith("load_") for name in dir(anchortm.datasets)),
}
rst_epilog = f".. |n_examples| replace:: {n_examples}"
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"/(?!plot_)[^/]*\.py$",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "image_scrapers": ("gallery_panels.panels",),
    "thumbnail_size": (480, 340),
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("anchortm",),
    "reference_url": {"anchortm": None},
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "plot_gallery": "True",
    "capture_repr": ("_repr_html_",),
}

html_theme = "pydata_sphinx_theme"
html_title = "anchortm"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_static/favicon.svg"
html_logo = "_static/logo.svg"
html_show_sourcelink = False
html_sidebars = {"index": [], "references": []}
toc_object_entries_show_parents = "hide"
html_theme_options = {
    "logo": {"text": "anchortm", "alt_text": "anchortm"},
    "github_url": "https://github.com/anchortm/anchortm",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}  # light or dark, as readers prefer

# what readers copy from a session: its input, without prompts and output
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True
copybutton_line_continuation_character = "\\"
copybutton_copy_empty_lines = False
copybutton_selector = "div:not(.highlight-text):not(.highlight-none) > div.highlight > pre"  # output has no button

warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")
