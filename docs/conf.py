"""Sphinx configuration of the site; `make docs` builds it."""

from typing import Any

project = "TensorDash"
author = "TensorDash contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]
napoleon_use_rtype = False
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
highlight_language = "none"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "furo"
html_title = "TensorDash"
html_show_copyright = False
myst_heading_anchors = 4
smartquotes = False  # otherwise an option `--model` in a help text becomes a dash and `model`


def _escape(_app: Any, _context: Any, lines: list[str]) -> None:
    """Help texts are no reStructuredText: an asterisk is an asterisk."""
    lines[:] = [line.replace("*", "\\*") for line in lines]


def _show_examples(_app: Any, _context: Any, lines: list[str]) -> None:
    """Make a code block of the examples at the end of a help text."""
    examples = [line.removeprefix("|").strip() for line in lines if line.startswith("|") and "tensordash " in line]
    shown = ["Examples:", "", ".. code-block:: sh", "", *(f"   {example}" for example in examples), ""]
    lines[:] = shown if examples else []


def _part_source(_app: Any, _what: Any, _name: Any, _object: Any, _options: Any, lines: list[str]) -> None:
    """Begin a section with a docstring's source: numpydoc would take it for an error of the section above."""
    for at in [at for at, line in enumerate(lines) if line.startswith("Source: ")]:
        lines[at : at + 1] = ["Source", "------", lines[at].removeprefix("Source:").strip()]


def setup(app: Any) -> None:
    """Connect to the events of sphinx-click and autodoc; the source is parted before napoleon parses sections."""
    app.connect("autodoc-process-docstring", _part_source, priority=400)
    app.connect("sphinx-click-process-description", _escape)
    app.connect("sphinx-click-process-options", _escape)
    app.connect("sphinx-click-process-epilog", _show_examples)
