# SPDX-License-Identifier: GPL-3.0-or-later
"""python tools/site [--source DIRECTORY] [--external]: the documentation as a site, build/site/index.html.

It ends with 1 where a link leads nowhere, or where a page stands in no part of pages.yml. Pages, and what they link to, are copied to
build/site-src with their places in the repository: a link that is right here is right there. --source: another tree than this one's, for
tests. --external: links to other sites are asked, too.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
PAGES = ("*.md", "docs", "inventories", "roles/*/README.md", "tests/fixtures/README.md", "tests/lib/switch_exports.py", "LICENSE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=HERE.parents[1])
    parser.add_argument("--external", action="store_true")
    given = parser.parse_args()
    source = given.source.resolve()
    pages, site = source / "build/site-src", source / "build/site"
    copy(source, pages)
    readme = pages / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8") + "\n".join(contents(HERE / "pages.yml")), encoding="utf-8")
    shutil.rmtree(site, ignore_errors=True)
    ended = build("html", pages, site) or (build("linkcheck", pages, source / "build/site-links") if given.external else 0)
    if not ended:
        shutil.copyfile(site / "README.html", site / "index.html")
        print(site / "index.html")
    return ended


def copy(source: Path, pages: Path) -> None:
    shutil.rmtree(pages, ignore_errors=True)
    for pattern in PAGES:
        for path in sorted(source.glob(pattern)):
            target = pages / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)
    for directory in (*pages.glob("inventories/*/"), *pages.glob("docs/examples/*/")):
        directory.with_suffix(".md").write_text("\n".join(listing(directory)), encoding="utf-8")


def listing(directory: Path) -> Iterator[str]:
    """A link to a directory leads to a page with its files."""
    yield from ("---", "orphan: true", "---", f"# {directory.name}", "")
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        yield from (f"## {path.relative_to(directory)}", "", "````", path.read_text(encoding="utf-8"), "````", "")


def contents(table: Path) -> Iterator[str]:
    """The parts of the site, as Sphinx takes them: each a list of pages whose titles are their headings."""
    for part, names in yaml.safe_load(table.read_text(encoding="utf-8")).items():
        yield from ("", "```{toctree}", ":hidden:", ":glob:", f":caption: {part}", "", *names, "```")
    yield ""


def build(builder: str, pages: Path, target: Path) -> int:
    options = ("-b", builder, "-c", HERE, "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env",
               "-d", target.with_name("site-trees"))
    return subprocess.run((sys.executable, "-m", "sphinx", *options, pages, target), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
