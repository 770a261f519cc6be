# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx's configuration of the site; `make site` calls it with a copy of the pages. Every warning is an error there."""

project = "railwright"
root_doc = "README"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6  # as repository hosts name them
highlight_language = "text"
html_theme = "furo"
html_title = "railwright"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["wide.css"]
html_css_files = ["wide.css"]
