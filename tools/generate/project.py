# SPDX-License-Identifier: GPL-3.0-or-later
"""The package's name and the project's addresses, from pyproject.toml to wherever they are said. What is not set is left out.

galaxy.yml alone keeps an empty ``repository``: ansible-lint's profile for production wants the key.
"""

import json
import re
import tomllib
from pathlib import Path

KEYS = {"Repository": "repository", "Documentation": "documentation", "Homepage": "homepage", "Issues": "issues"}  # in galaxy.yml
OTHERS = {"ansible-builder", "ansible-pylibssh"}  # other packages that a page tells people to install
BY_OTHERS = ("docs/reference/", "docs/seeds/")  # generated too; read elsewhere
INSTALL = re.compile(r"((?:(?<=[`/])|(?<=\$ ))pipx? install (?:--[a-z-]+ )*)([a-z][a-z0-9-]*[a-z0-9])(?![\w./-])")
WHEEL = re.compile(r"\bdist/[a-z][a-z0-9_]*-\*\.whl")
PYTHON = '''# SPDX-License-Identifier: GPL-3.0-or-later
"""What the package is called, and the project's addresses that are set. Generated from pyproject.toml (tools/generate/project.py)."""

NAME = %s
ADDRESSES: dict[str, str] = %s
'''


def files(root: Path) -> dict[str, str]:
    """galaxy.yml, the constants for the command line, and every page that says how to install it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, addresses = project["name"], project["urls"]
    unknown = sorted(set(addresses) - set(KEYS))
    if unknown:
        raise ValueError(f"pyproject.toml, [project.urls]: {', '.join(unknown)}: unknown; allowed: {', '.join(KEYS)}")
    galaxy = "".join(line for line in _text(root, "galaxy.yml").splitlines(keepends=True) if line.split(":")[0] not in KEYS.values())
    said = "".join(f"{KEYS[label]}: {json.dumps(url)}\n" for label, url in sorted(({"Repository": ""} | addresses).items()))
    constants = PYTHON % (json.dumps(name), json.dumps(dict(sorted(addresses.items()))))
    found = {"galaxy.yml": galaxy.replace("build_ignore:\n", f"{said}build_ignore:\n"), "src/railwright/project.py": constants}
    pages = [str(page.relative_to(root)) for page in (*root.glob("README*.md"), *root.glob("docs/**/*.md"))]
    found |= {page: installing(_text(root, page), name) for page in pages if not page.startswith(BY_OTHERS)}
    return found


def installing(text: str, name: str) -> str:
    """The text with this name wherever it says to install the package or its wheel."""
    text = INSTALL.sub(lambda said: said[0] if said[2] in OTHERS else said[1] + name, text)
    return WHEEL.sub(f"dist/{name.replace('-', '_')}-*.whl", text)


def _text(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")
