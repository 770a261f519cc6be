# SPDX-License-Identifier: GPL-3.0-or-later
"""One command, over when its time is, or when it has said too much: whoever holds its output open beyond that keeps nobody waiting.

It leads a session of its own, so that with it everything ends that it has started: asked first (SIGTERM), and killed if that does
not help. What it has left behind when it ended by itself, within its time, is left alone: that may be a daemon.
"""

import contextlib
import mmap
import os
import select
import selectors
import signal
import subprocess
import threading
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .write import CUT, Result

ASKED_SECONDS = 2.0  # for what was asked to end to give back what it holds
KILLED_SECONDS = 2.0  # for what was killed to be gone. A device that hangs keeps even that
POLL_SECONDS = 0.02
CHUNK = 65536
ERROR = 2000  # characters of what a child raised, with where
MADE, RAISED, HANGS = "made", "raised", "hangs"
TOLD = 4096  # bytes of what a child last said that it does
CHILD_SECONDS = 1.0  # for a child that was interrupted to end its command


def run_bounded(
    argv: Sequence[str], environment: Dict[str, str], timeout: float, stdin: Optional[str], limit: int, patience: float = ASKED_SECONDS
) -> Result:
    """Never raises. Where the time ends, and only a child of a command that has ended goes on, its own exit code counts.

    What has said more than ``limit`` bytes on one of its streams is ended, and nothing of it is kept: half of an answer is no answer.
    ``patience``: seconds in which what was asked to end may do so, and again in which what was killed may. What does not even then, as
    in a driver that waits for a dead device, is left alone: ``stuck``.
    """
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, close_fds=True, cwd="/", start_new_session=True,
        )
    except OSError as error:
        return Result(127, "", "%s: %s" % (argv[0], error.strerror))
    with _Talk(process, (stdin or "").encode(), limit) as talk:
        over = _ended_by_itself(process, talk, timeout, patience)
    if talk.cut:
        return Result(CUT, "", "%s: said more than %d bytes and was ended" % (argv[0], limit))
    out, err = talk.text(process.stdout), talk.text(process.stderr)
    if not over and process.poll() is None:
        process.returncode = 124  # nobody waits for it any more, and Popen must not warn about that
        return Result(124, out, "%s: no answer in %g s, and SIGKILL does not end it: %s" % (argv[0], timeout, waiting(process.pid)), True)
    return Result(process.returncode, out, err) if over else Result(124, out, "%s: no answer in %g s" % (argv[0], timeout))


def waiting(pid: int) -> str:
    """Where a process is in the kernel, for people: ``process 4242 is in state D (nvidia_close)``."""
    found = []
    for name in ("stat", "wchan"):
        try:
            with open("/proc/%d/%s" % (pid, name), "rb") as stream:
                found.append(stream.read(CHUNK).decode("utf-8", "replace"))
        except OSError:
            found.append("")
    state, place = found[0].rpartition(")")[2].split()[:1], found[1].strip("0")
    return "process %d is in state %s%s" % (pid, state[0] if state else "unknown", " (%s)" % place[:64] if place else "")


def in_child(make: Callable[[Callable[[str], None]], bytes], seconds: float) -> Tuple[str, bytes]:
    """What ``make`` gives, in a process of its own: a file of a dead device may keep whoever reads it for ever, and we go on.

    ``make`` gets a function to tell what it is about to do. The first is ``MADE``; ``RAISED`` with what it raised; ``HANGS`` with where it
    is, where nothing came in time.
    """
    told, (reading, writing) = mmap.mmap(-1, TOLD), os.pipe()
    child = os.fork()
    if child == 0:
        _child(make, told, writing)
    os.close(writing)
    try:
        with open(reading, "rb", buffering=0) as stream:
            data = _all_of(stream, time.monotonic() + seconds)
    finally:
        where = "%s, %s" % (waiting(child), told[:].rstrip(b"\0").decode("utf-8", "replace"))
        _end_child(child)
    if data is None:
        return HANGS, where.encode("utf-8", "replace")
    return MADE if data[:1] == b"+" else RAISED, data[1:]


def _child(make: Callable[[Callable[[str], None]], bytes], told: mmap.mmap, writing: int) -> None:
    """Ends the process. It holds no stream of ours: who waits for their end must not wait for it."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        data = b"-"
        try:
            data = b"+" + make(lambda text: told.__setitem__(slice(0, TOLD), text.encode("utf-8", "replace")[:TOLD].ljust(TOLD, b"\0")))
        finally:
            if data == b"-":
                data += " ".join(traceback.format_exc(limit=-3).split())[-ERROR:].encode("utf-8", "replace")
            while data:
                data = data[os.write(writing, data):]
    finally:
        os._exit(0)


def _all_of(stream: Any, deadline: float) -> Optional[bytes]:
    """Everything until its end; None where that does not come in time."""
    chunks: List[bytes] = []
    while select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = stream.read(CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
    return None


def _end_child(child: int) -> None:
    """It has ended, mostly. Else an interrupt lets it end the command that it runs first; one that nothing ends is left alone."""
    for number in (0, signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)
        deadline = time.monotonic() + (CHILD_SECONDS if number else POLL_SECONDS)
        while True:
            try:
                if os.waitpid(child, os.WNOHANG)[0]:
                    return
            except ChildProcessError:
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(POLL_SECONDS)


def _ended_by_itself(process: "subprocess.Popen[bytes]", talk: "_Talk", timeout: float, patience: float) -> bool:
    """Whether it did so in its time; otherwise it and its children are ended."""
    try:
        with _hanging_up_with(process):
            over = talk.until(time.monotonic() + timeout) or (not talk.cut and process.poll() is not None)
            if not over:
                _end(process, talk, patience)
    except BaseException:  # an interrupt from the keyboard is not sent to another session
        _end(process, talk, patience)
        raise
    return over


def _end(process: "subprocess.Popen[bytes]", talk: "_Talk", patience: float) -> None:
    """Who is killed gives nothing back: a login shell in the middle of `pyenv init` leaves a lock, and every later login waits for it."""
    try:
        _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + patience
        talk.until(deadline)
        while _signal(process, 0) and time.monotonic() < deadline:  # a child whose output is not ours
            time.sleep(POLL_SECONDS)
    finally:
        _signal(process, signal.SIGKILL)
    talk.until(time.monotonic() + min(patience, KILLED_SECONDS))
    process.poll()  # so that it is no zombie, though somebody in another session has its output


class _Talk:
    """What goes into a command and comes out of it. ``communicate`` of subprocess, but what was read so far can be had at any time."""

    def __init__(self, process: "subprocess.Popen[bytes]", data: bytes, limit: int) -> None:
        self.process = process
        self.data = memoryview(data)
        self.limit = limit
        self.cut = False  # it has said more than that; from then on it is heard, and nothing is kept
        self.streams = [stream for stream in (process.stdin, process.stdout, process.stderr) if stream is not None]
        self.said: Dict[Any, List[bytes]] = {}
        self.sizes: Dict[Any, int] = {}
        self.selector = selectors.PollSelector()

    def __enter__(self) -> "_Talk":
        for stream in self.streams:
            self.selector.register(stream, selectors.EVENT_WRITE if stream is self.process.stdin else selectors.EVENT_READ)
        return self

    def __exit__(self, *_exception: object) -> None:
        self.selector.close()
        for stream in self.streams:
            stream.close()

    def until(self, deadline: float) -> bool:
        """Whether before the deadline everything was read, and the command has ended. No longer than until it has said too much."""
        known = self.cut
        while self.selector.get_map():
            if self.cut and not known:
                return False
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _events in self.selector.select(left):
                if key.fileobj is self.process.stdin:
                    self._write(key.fileobj)
                else:
                    self._read(key.fileobj)
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def text(self, stream: Any) -> str:
        return b"".join(self.said.get(stream, [])).decode("utf-8", "replace")

    def _read(self, stream: Any) -> None:
        chunk = os.read(stream.fileno(), CHUNK)
        if not chunk:
            self._end(stream)
            return
        self.sizes[stream] = self.sizes.get(stream, 0) + len(chunk)
        self.cut = self.cut or self.sizes[stream] > self.limit
        if self.cut:
            self.said.clear()
        else:
            self.said.setdefault(stream, []).append(chunk)

    def _write(self, stream: Any) -> None:
        try:
            self.data = self.data[os.write(stream.fileno(), self.data[:select.PIPE_BUF]):]
        except BrokenPipeError:  # it does not want the rest
            self.data = self.data[:0]
        if not self.data:
            self._end(stream)

    def _end(self, stream: Any) -> None:
        self.selector.unregister(stream)
        stream.close()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> bool:
    """Whether anybody is there to hear it."""
    try:
        os.killpg(process.pid, number)
    except OSError:  # it has just ended, or runs as somebody else
        return False
    return True


@contextlib.contextmanager
def _hanging_up_with(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """A terminal that hangs up tells only its own session, so we hand that on before we end of it.

    Where we do not end of it (``Host.shielded``) the command has inherited that, and goes on as well.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        yield
        return

    def hand_on(number: int, _frame: Any) -> None:
        _signal(process, number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGHUP, hand_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
