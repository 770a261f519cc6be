# SPDX-License-Identifier: GPL-3.0-or-later
"""In place of the CLI of an Arista switch, behind a real sshd: a prompt, and the few commands that are read here. Anything else is refused
with EOS' own words, and written down beside the file of the configuration.

    python3 eos_cli_double.py CONFIGURATION
"""

import sys
from pathlib import Path

PROMPT = "leaf1#"
QUIET = ("terminal length 0", "terminal width 512", "terminal width 511", "")
VERSION = '{"modelName": "DCS-7060DX5-64S", "version": "4.31.2F"}'


def answer(command: str, configuration: Path) -> str:
    if command == "show running-config":
        return configuration.read_text(encoding="utf-8")
    if command == "show version | json":
        return VERSION + "\n"
    if command in QUIET:
        return ""
    with configuration.with_suffix(".refused").open("a", encoding="utf-8") as stream:
        stream.write(command + "\n")
    return "% Invalid input\n"


def main() -> None:
    configuration = Path(sys.argv[1])
    while True:
        sys.stdout.write(PROMPT)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line or line.strip() == "exit":
            return
        sys.stdout.write(answer(line.strip(), configuration))


main()
