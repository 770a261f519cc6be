# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m railwright`` is the same as ``railwright``."""

from railwright.cli import main

if __name__ == "__main__":
    main()
