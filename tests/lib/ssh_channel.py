# SPDX-License-Identifier: GPL-3.0-or-later
"""A channel of an ssh connection, as a dialogue uses one."""


class Channel:
    """Keeps what was written."""

    def __init__(self) -> None:
        self.written, self.eof, self.aborted = b"", False, False

    def write(self, data: bytes) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.eof = True

    def abort(self) -> None:
        self.aborted = True
