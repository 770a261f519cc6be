# SPDX-License-Identifier: GPL-3.0-or-later
"""The live view. Nodes tell what was counted, a line a second; here it becomes rates, marks, and a picture.

* ``sample``: the form of a node's line, and rates of two of them; the form of a document, which is recorded and replayed
* ``marks``: what stands out, beside its like
* ``picture``: the lines of a screen
* ``live``: the nodes over their connections, a document a second
* ``terminal``: the screen and its keys
"""
