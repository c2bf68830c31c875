"""How sphinx builds these pages: `make docs` writes them to output/docs/html.

Nothing is fetched: no remote fonts, scripts or inventories.
"""

import sys
from pathlib import Path

import duelrank

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "duelrank"
author = "The duelrank developers"
copyright = author
version = release = duelrank.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "as_written",
    "public_names",
]
templates_path = ["_templates"]
exclude_patterns = ["gallery/backreferences/*"]
nitpicky = True
nitpick_ignore = [("py:mod", "duelrank.duels._protocol")]  # DuelEngine's page has the same text
default_role = "literal"
highlight_options = {"python": {"stripnl": True}}  # a doctest ends in an empty line

# Every room gets a page, and every public name of the room its own, see _templates.
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autosummary_context = {"top_level": duelrank.__all__}
autodoc_typehints = "none"  # docstrings describe the types in words
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("duelrank",),
    "reference_url": {"duelrank": None},
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "duelrank"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
# Pages without pages below them need no navigation on their left.
html_sidebars = {
    page: []
    for page in (
        "index",
        "quickstart",
        "concepts",
        "engines",
        "reproduction",
        "architecture",
        "changelog",
    )
}
HOW_TO = [f"how_to/{page.stem}" for page in (HERE / "how_to").glob("*.md")]  # short, and wide code
html_theme_options = {
    "logo": {"text": "duelrank"},
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "show_prev_next": False,
    "footer_start": [],
    "footer_end": [],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        **{page: [] for page in ["index", "api", "changelog", "gallery/index", *HOW_TO]},
    },
}
