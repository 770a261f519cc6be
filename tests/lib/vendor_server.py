# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HTTP server on 127.0.0.1 with Range requests, which breaks connections where it is told to. Also a proxy, for https too (CONNECT).

As a proxy it answers for every vendor's host itself, with a certificate of its own making: nothing leaves the machine.
"""

import hashlib
import re
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Vendor:
    """``files``: what lies at HOST/PATH, or at /PATH for any host. ``breaks``: after how many bytes of each next answer it hangs up."""

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.breaks: list[int] = []
        self.redirects: dict[str, str] = {}
        self.ranges = self.tags = self.lengths = True
        self.slow = 0.0  # seconds between two pieces of 64 KiB
        self.asked: list[tuple[str, str | None]] = []  # (HOST/PATH or /PATH, Range)
        self.certificate = certificate
        vendor = self

        class Handler(Answers):
            site = vendor

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Answers(BaseHTTPRequestHandler):
    site: Vendor
    tunnel = ""

    def log_message(self, *_given: Any) -> None:
        """No word on stderr."""

    def do_CONNECT(self) -> None:
        assert self.site.certificate is not None
        self.send_response(200)
        self.end_headers()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.site.certificate)
        self.tunnel = self.path.partition(":")[0]
        with context.wrap_socket(self.connection, server_side=True) as wrapped:
            self.rfile, self.wfile = wrapped.makefile("rb"), wrapped.makefile("wb")
            self.handle_one_request()
            self.wfile.flush()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        host, site = self.tunnel or parts.netloc, self.site
        place = host + parts.path
        asked = self.headers.get("Range")
        site.asked.append((place, asked))
        if place in site.redirects:
            self.send_response(302)
            self.send_header("Location", site.redirects[place])
            self.end_headers()
            return
        content = site.files.get(place)
        if content is None:
            self.send_error(404)
            return
        found = re.fullmatch(r"bytes=(\d+)-", asked or "") if site.ranges else None
        begin = int(found[1]) if found is not None else 0
        if begin >= len(content) > 0:
            self.send_error(416)
            return
        self._give(content, begin, partial=found is not None)

    def _give(self, content: bytes, begin: int, *, partial: bool) -> None:
        site, piece = self.site, content[begin:]
        self.send_response(206 if partial else 200)
        if partial:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        if site.tags:
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        if site.lengths:
            self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        most = site.breaks.pop(0) if site.breaks else len(piece)
        for at in range(0, min(most, len(piece)), 1 << 16):
            self.wfile.write(piece[at:min(at + (1 << 16), most)])
            time.sleep(site.slow)
        self.close_connection = True


def own_certificate(directory: Path, host: str) -> tuple[Path, Path]:
    """A certificate for this host that its own maker signs, and its key: SSL_CERT_FILE of who is to trust it."""
    certificate, key = directory / "host.pem", directory / "host.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}", "-addext",
                    f"subjectAltName=DNS:{host}", "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key
