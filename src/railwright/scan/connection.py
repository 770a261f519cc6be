# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections to nodes by asyncssh, with what OpenSSH's configuration says; and what each fault of ssh means to a person.

OpenSSH's names of algorithms, files of keys and rules for host keys hold. Where asyncssh has none of what is asked for, the node goes by
Ansible. One connection to a jump host serves all nodes behind it.
"""

import asyncio
import getpass
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncssh

from railwright.scan.faults import Unreachable, fault_text, host_key_text, login_text
from railwright.scan.login import ByAnsible, Login
from railwright.scan.options import LOGIN_S, NO_KEYS, Options, connection_options, one, words_of
from railwright.scan.ssh_config import Resolved, Settings, SshConfig, Unreadable, expanded

TRIES, PAUSE_S = 3, 1.5  # sshd's MaxStartups drops connections at random while many come


class HostKeys(asyncssh.SSHClient):
    """Knows why a host key was not trusted."""

    def __init__(self, known: asyncssh.SSHKnownHosts, alias: str | None, *, stray_keys: bool) -> None:
        self._known, self._alias, self._stray_keys = known, alias, stray_keys
        self.unknown = False  # no key of this host is known at all

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        del key  # it is none of those that are known
        keys, authorities, *_others = self._known.match(self._alias or host, addr, None if port == asyncssh.DEFAULT_PORT else port)
        self.unknown = not keys and not authorities
        return self.unknown and self._stray_keys


class Connections:
    """All connections of one scan."""

    def __init__(self, config: SshConfig) -> None:
        self._config = config
        self._options: dict[tuple[int, bool], Options | ByAnsible] = {}
        self._settings: list[Settings] = []  # keeps alive what _options are found by
        self._known: dict[tuple[str, ...], asyncssh.SSHKnownHosts] = {}
        self._jumps: dict[tuple[str, ...], asyncio.Task[asyncssh.SSHClientConnection]] = {}

    async def open(self, login: Login) -> asyncssh.SSHClientConnection:
        """Raises Unreachable, ByAnsible."""
        return await self._open(login.config, login.host, login.password, post_quantum=login.post_quantum)

    async def close(self) -> None:
        """The jump hosts' too."""
        for task in self._jumps.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()
            task.cancel()

    async def _open(self, config: Resolved, host: str, password: str | None, *, post_quantum: bool) -> asyncssh.SSHClientConnection:
        shared, key = config.shared, (id(config.shared), post_quantum)
        if key not in self._options:
            self._settings.append(shared)
            try:
                self._options[key] = connection_options(shared, self._config.default(), password, post_quantum=post_quantum)
            except ByAnsible as reason:
                self._options[key] = reason
        found = self._options[key]
        if isinstance(found, ByAnsible):
            raise found
        tokens = _tokens(config, host)
        known = self._known_hosts(shared, tokens)
        alias = one(shared, "hostkeyalias")
        owner = HostKeys(known, alias, stray_keys=found.stray_keys)
        more: dict[str, Any] = {"known_hosts": known, "client_factory": lambda: owner, "host_key_alias": alias}
        if (command := one(shared, "proxycommand")) is not None:
            try:
                more["proxy_command"] = expanded(command, tokens).removeprefix("exec ")
            except Unreadable as error:
                raise ByAnsible(f"ProxyCommand: {error}") from error
        elif (hops := one(shared, "proxyjump")) is not None:
            more["tunnel"] = await self._jump(tuple(hops.split(",")), config.file)
        return await self._tried(config.hostname, {**found.asyncssh, **more}, owner, found)

    async def _tried(self, host: str, options: Mapping[str, Any], owner: HostKeys, shared: Options) -> asyncssh.SSHClientConnection:
        for attempt in range(TRIES):
            try:
                async with asyncio.timeout(LOGIN_S):
                    direct = not options.keys() & {"tunnel", "proxy_command"}
                    to = await connected(host, options, shared.connect_s) if direct else None
                    return await asyncssh.connect(host, **options, **({} if to is None else {"sock": to}))
            except asyncssh.HostKeyNotVerifiable as error:
                if shared.strict not in ("ask", "yes", "true"):  # OpenSSH may take the key, and writes it down
                    raise ByAnsible("its host key is not known yet, or has changed") from error
                raise Unreachable(host_key_text(host, options["port"], str(error), unknown=owner.unknown)) from error
            except asyncssh.PermissionDenied as error:
                if shared.by_ansible:
                    raise ByAnsible(f"its login needs {shared.by_ansible}") from error
                raise Unreachable(login_text(host, options, str(error), shared.hints)) from error
            except asyncssh.KeyExchangeFailed as error:
                raise ByAnsible("no algorithm of the key exchange that both sides have") from error
            except (asyncssh.ConnectionLost, ConnectionError, asyncssh.ProtocolError) as error:
                if isinstance(error, ConnectionRefusedError) or attempt == TRIES - 1:
                    raise Unreachable(fault_text(host, options["port"], error)) from error
                await asyncio.sleep(PAUSE_S * (attempt + 1))
            except (asyncssh.Error, OSError, TimeoutError, ValueError) as error:
                raise Unreachable(fault_text(host, options["port"], error)) from error
        raise AssertionError  # the last try returns or raises

    async def _jump(self, hops: tuple[str, ...], file: str | None) -> asyncssh.SSHClientConnection:
        """The connection to the last of these, each through the one before; made once."""
        key = (file or "", *hops)
        if key not in self._jumps:
            self._jumps[key] = asyncio.create_task(self._jumped(hops, file))
        try:
            return await asyncio.shield(self._jumps[key])
        except Unreachable as error:
            raise Unreachable(f"jump host {hops[-1]}: {error}") from error

    async def _jumped(self, hops: tuple[str, ...], file: str | None) -> asyncssh.SSHClientConnection:
        *before, hop = hops
        user, _at, place = hop.removeprefix("ssh://").rpartition("@")
        host, port = _split_port(place)
        arguments = [*(["-l", user] if user else []), *(["-p", port] if port else []), "-o", "BatchMode=yes"]
        arguments += ["-o", f"ProxyJump={','.join(before)}"] if before else []
        arguments += ["-F", file] if file is not None else []  # all that ssh hands on to the ssh that it starts for a jump
        try:
            config = self._config.resolve(arguments, host)
        except Unreadable as error:
            raise ByAnsible(f"jump host {hop}: {error}") from error
        return await self._open(config, host, None, post_quantum=False)

    def _known_hosts(self, shared: Settings, tokens: Mapping[str, str]) -> asyncssh.SSHKnownHosts:
        names = [*words_of(shared, "userknownhostsfile"), *words_of(shared, "globalknownhostsfile")]
        files = tuple(expanded(name, tokens) for name in names)
        if files not in self._known:
            present = [name for name in files if name not in NO_KEYS and os.access(name, os.R_OK)]
            self._known[files] = asyncssh.read_known_hosts(present) if present else asyncssh.import_known_hosts("")
        return self._known[files]


async def connected(host: str, options: Mapping[str, Any], seconds: float | None) -> socket.socket:
    """A socket to the first of a host's addresses that takes it. Raises OSError, TimeoutError."""
    loop = asyncio.get_running_loop()
    failed: OSError = OSError(f"{host} has no address")
    async with asyncio.timeout(seconds):
        for family, kind, protocol, _name, address in await loop.getaddrinfo(
            host, options["port"], family=options["family"], type=socket.SOCK_STREAM
        ):  # fmt: skip
            found = socket.socket(family, kind, protocol)
            try:
                found.setblocking(False)
                if options["local_addr"] is not None:
                    found.bind(options["local_addr"])
                await loop.sock_connect(found, address)
            except BaseException as error:
                found.close()
                if not isinstance(error, OSError):
                    raise
                failed = error
            else:
                return found
    raise failed


def _split_port(place: str) -> tuple[str, str]:
    """``host:22``, ``[::1]:22``, ``host``."""
    if place.startswith("["):
        host, _bracket, rest = place[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _colon, port = place.partition(":")
    return (place, "") if ":" in port else (host, port)


def _tokens(config: Resolved, host: str) -> dict[str, str]:
    """TOKENS of ssh_config(5) that do not depend on the connection."""
    name, shared = socket.gethostname(), config.shared
    return {
        "%": "%", "h": config.hostname, "n": host, "p": one(shared, "port") or "22", "r": one(shared, "user") or "",
        "d": str(Path.home()), "u": getpass.getuser(), "i": str(os.getuid()), "l": name,
        "L": name.partition(".")[0], "k": one(shared, "hostkeyalias") or host,
    }  # fmt: skip
