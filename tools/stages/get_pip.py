# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the get-pip script that ansible-test would fetch from a server of its own.

ansible-test makes environments without pip and fills them with this; Python's bundled
ensurepip does the same from this machine, and the package index gives the version asked for.
"""

import subprocess
import sys


def main() -> None:
    """The arguments are get-pip's: options of pip install, and the packages."""
    wanted = [item for item in sys.argv[1:] if item not in ("--no-setuptools", "--no-wheel")]
    subprocess.run((sys.executable, "-m", "ensurepip", "--default-pip"), check=True, stdout=subprocess.DEVNULL)
    subprocess.run((sys.executable, "-m", "pip", "install", "-q", "--upgrade", *wanted), check=True)


if __name__ == "__main__":
    main()
