# SPDX-License-Identifier: GPL-3.0-or-later
"""One file over http or https into a ``.part`` beside its place: bounded in size and time, and continued where it broke off.

A part's name holds a digest of what it is a part of (address, the server's validator, length), so that a part of another file that the
same address had before is never continued. Nothing but http and https is opened, after a redirect too. Proxies are those of the usual
environment variables.
"""

import errno
import hashlib
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from io import BufferedRandom
from pathlib import Path
from typing import Any, NamedTuple
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

from ansible_collections.railwright.rdma.plugins.module_utils.host.write import is_own
from railwright import __version__
from railwright.report.text import size_text
from railwright.writing import own_file

CHUNK = 1 << 20
GAIN = 1 << 20  # bytes after which a broken connection counts as the first one again
AGAIN = {408, 416, 425, 429, 500, 502, 503, 504}
LOCAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EFBIG, errno.ENAMETOOLONG}  # no server can mend these


class Refused(Exception):
    """Why a file cannot be had, for the operator; to ask again would not help."""


class Limits(NamedTuple):
    size: int = 16 << 30  # bytes a file
    seconds: float = 4 * 3600.0  # a file
    silence: float = 60.0  # seconds without a byte
    tries: int = 5  # broken connections without any gain
    pause: float = 1.0  # seconds before the second try, then twice as many each time


class _Redirects(request.HTTPRedirectHandler):
    max_redirections = 8

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        new = urlsplit(newurl).scheme
        if new != "https" and new != urlsplit(req.full_url).scheme:
            raise Refused(f"it is redirected from {urlsplit(req.full_url).scheme} to {new}; allowed: http to http, and to https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(begin: int) -> request.OpenerDirector:
    """Without the handlers of files, FTP and data that urllib's own has."""
    opener = request.OpenerDirector()
    for handler in (request.ProxyHandler(), request.UnknownHandler(), request.HTTPHandler(), request.HTTPSHandler(),
                    request.HTTPDefaultErrorHandler(), _Redirects(), request.HTTPErrorProcessor()):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", f"railwright/{__version__}"), ("Accept-Encoding", "identity")]
    if begin:
        opener.addheaders.append(("Range", f"bytes={begin}-"))
    return opener


def download(url: str, target: Path, limits: Limits, *, pinned: bool) -> tuple[BufferedRandom, bool]:
    """Return the finished part, open (its ``name`` is its path), and whether an earlier part was continued. ``pinned``: a digest tells
    afterwards whether it is right.

    Raises Refused and OSError; a part of a broken download stays.
    """
    deadline = time.monotonic() + limits.seconds
    continued, tries = False, 0
    with _alarm(limits.seconds):
        while True:
            before = _largest(target)[0]
            continued = continued or before > 0
            try:
                return _attempt(url, target, limits, pinned=pinned), continued
            except HTTPError as error:
                if error.code not in AGAIN:
                    raise Refused(f"{_host(url)} answered {error.code} {error.reason}") from error
                text = f"{error.code} {error.reason}"
                if error.code == 416:
                    drop_parts(target)
            except (OSError, HTTPException) as error:
                if isinstance(error, OSError) and error.errno in LOCAL:
                    raise
                text = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error) or type(error).__name__
            now = _largest(target)[0]
            tries = 1 if now >= before + GAIN else tries + 1
            pause = limits.pause * 2 ** (tries - 1)
            if time.monotonic() + pause >= deadline:
                raise Refused(f"it took longer than {limits.seconds:g} s; {_keeps(now)}")
            if tries >= limits.tries:
                raise Refused(f"{_host(url)}: {text}, {tries} times; {_keeps(now)}")
            time.sleep(pause)


def _parts(target: Path) -> Iterator[Path]:
    """Parts of a file that lie beside its place."""
    form = re.compile(re.escape(target.name) + r"\.[0-9a-f]{16}\.part")
    return (path for path in target.parent.iterdir() if form.fullmatch(path.name))


def _largest(target: Path) -> tuple[int, Path | None]:
    """Size and path of the largest part that can be continued: others may plant files and links in a shared mirror."""
    states = ((path.lstat(), path) for path in _parts(target))
    return max(((state.st_size, path) for state, path in states if is_own(state)), default=(0, None))


def _attempt(url: str, target: Path, limits: Limits, *, pinned: bool) -> BufferedRandom:
    """One connection. What is asked for begins one byte early: of a part that is whole already a server has nothing more to give."""
    size, found = _largest(target)
    begin = max(size - 1, 0)
    with _opener(begin).open(url, timeout=limits.silence) as answer:
        total, validator = _length(answer, begin), _validator(answer)
        if total is not None and total > limits.size:
            raise Refused(f"it has {size_text(total)}; allowed: up to {size_text(limits.size)}")
        if total is None and not pinned and answer.headers.get("Transfer-Encoding") is None:
            raise Refused(f"{_host(url)} does not say how long it is, and no checksum would tell whether all of it came")
        tag = hashlib.sha256(f"{url}\n{validator}\n{total}".encode("utf-8", "backslashreplace")).hexdigest()[:16]
        part = target.with_name(f"{target.name}.{tag}.part")
        if answer.status != 206:
            begin = 0
        elif part != found or not (validator or pinned):
            drop_parts(target)
            raise ConnectionError("the file has changed meanwhile")
        drop_parts(target, but=part if begin else None)
        with ExitStack() as stack:
            stream = stack.enter_context(own_file(part))
            size = _write(answer, stream, begin, limits.size)
            if total is not None and size != total:
                raise ConnectionError(f"the connection broke after {size_text(size)} of {size_text(total)}")
            stack.pop_all()
    return stream


def _write(answer: Any, stream: BufferedRandom, begin: int, most: int) -> int:
    """The size at the end."""
    if stream.seek(0, os.SEEK_END) < begin:
        raise ConnectionError("the part that was to be continued was replaced")
    at = stream.seek(begin)
    while chunk := answer.read1(CHUNK):
        at += len(chunk)
        if at > most:
            raise Refused(f"it is longer than {size_text(most)}, which is what is allowed")
        stream.write(chunk)
    return stream.seek(0, os.SEEK_END)


def _length(answer: Any, begin: int) -> int | None:
    """Of the whole file; None where the server does not say. Raises ConnectionError for a piece that was not asked for."""
    if answer.status == 206:
        found = re.fullmatch(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15})", answer.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != begin:
            raise ConnectionError("the server sent another piece than the one asked for")
        return int(found[2])
    if answer.status != 200:
        raise ConnectionError(f"the server answered {answer.status}")
    length = answer.headers.get("Content-Length", "")
    return int(length) if re.fullmatch(r"\d{1,15}", length) else None


def _validator(answer: Any) -> str:
    """What tells one version of a file from another (RFC 9110, 8.8); empty where the server has nothing that does."""
    tag = str(answer.headers.get("ETag") or "")
    return tag if tag and not tag.startswith("W/") else str(answer.headers.get("Last-Modified") or "")


def _keeps(size: int) -> str:
    return f"{size_text(size)} are kept, and the next run goes on there" if size else "nothing was received"


def drop_parts(target: Path, but: Path | None = None) -> None:
    for part in list(_parts(target)):
        if part != but:
            part.unlink()


def _host(url: str) -> str:
    """Without what follows, which may hold a token of the site's."""
    return urlsplit(url).netloc


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Ends whatever waits: also a server that sends one byte of a header a minute. Every second again, should one be caught."""

    def stop(_number: int, _frame: Any) -> None:
        raise TimeoutError(errno.ETIMEDOUT, f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
