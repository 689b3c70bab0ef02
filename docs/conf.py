"""Sphinx configuration of the site; `make docs` builds it."""

project = "TensorDash"
author = "TensorDash contributors"
copyright = "TensorDash contributors; Apache License 2.0"  # noqa: A001  Sphinx's name
extensions = ["myst_parser", "sphinx_click"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "TensorDash"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
