# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ``ansible-test sanity`` on a copy of the collection and merges its JUnit files into one.

A copy, because ansible-test insists on a real ``ansible_collections`` path that is its own git
repository; and in a home of its own under build/, because it caches environments in ``~``.
Usage: sanity.py JUNIT_FILE [OPTION OF ansible-test sanity…]
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET  # ansible-test wrote the files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "sanity" / "home"
COPY = ROOT / "build" / "sanity" / "ansible_collections" / "railwright" / "rdma"
PIP_VERSION = "24.2"  # what ansible-test of ansible-core 2.19 asks for

# Everything that ansible-test has runs, but for these.
SKIPPED = {
    "changelog": "needs antsibull-changelog; the generator and a contract test judge changelogs/",
    "empty-init": "judges __init__.py files outside module_utils; there is none by design",
    "pslint": "judges PowerShell; the collection has none",
    "shellcheck": "judges .sh files; the collection has none",
}


def collection_files() -> list[Path]:
    """The files of the collection as git knows them: committed or new, never ignored."""
    parts = ("CHANGELOG.md", "LICENSE", "README.md", "galaxy.yml", "meta", "playbooks", "plugins", "roles", "tests/sanity")
    listed = subprocess.run(("git", "ls-files", "-co", "--exclude-standard", "-z", "--", *parts), cwd=ROOT, check=True, capture_output=True)
    names = sorted({name for name in listed.stdout.decode().split("\0") if name})
    return [Path(name) for name in names if (ROOT / name).is_file()]


def make_copy() -> None:
    """Lay the copy and make it a git repository: ansible-test asks git what there is."""
    shutil.rmtree(COPY, ignore_errors=True)
    for name in collection_files():
        target = COPY / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    subprocess.run(("git", "init", "-q"), cwd=COPY, check=True)
    subprocess.run(("git", "add", "-A"), cwd=COPY, check=True)


def prepare_home() -> dict[str, str]:
    """The environment of ansible-test: a home of its own with the get-pip stand-in; the user's pip configuration stays."""
    cache = HOME / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "tools" / "stages" / "get_pip.py", cache / f"get_pip_{PIP_VERSION.replace('.', '_')}.py")
    env = dict(os.environ, HOME=str(HOME), LC_ALL="C.UTF-8")
    user = Path.home() / ".cache" / "pip"
    env.setdefault("PIP_CACHE_DIR", str(user))
    for name in (Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"):
        if name.exists():
            env.setdefault("PIP_CONFIG_FILE", str(name))
    return env


def merge(target: Path) -> None:
    """One JUnit file from the many that ansible-test writes, one for each of its tests."""
    suites = ET.Element("testsuites")
    for path in sorted((COPY / "tests" / "output" / "junit").glob("*.xml")):
        suites.extend(ET.parse(path).getroot().iter("testsuite"))
    ET.ElementTree(suites).write(target, encoding="unicode")


def main(arguments: list[str]) -> int:
    """Exit status of ansible-test."""
    make_copy()
    skips = [part for name in SKIPPED for part in ("--skip-test", name)]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    argv = (
        str(Path(sys.executable).parent / "ansible-test"),
        "sanity",
        "--junit",
        "--color",
        "no",
        "--python",
        version,
        *skips,
        *arguments[1:],
    )
    status = subprocess.run(argv, cwd=COPY, env=prepare_home(), check=False).returncode
    merge(Path(arguments[0]))
    for name, reason in SKIPPED.items():
        print(f"left out: {name}: {reason}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
