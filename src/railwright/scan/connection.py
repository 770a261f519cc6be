# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections to nodes by asyncssh, with what OpenSSH's configuration says; and what each fault of ssh means to a person.

OpenSSH's names of algorithms, files of keys and rules for host keys hold. Where asyncssh has none of what is asked for, the node goes by
Ansible. One connection to a jump host serves all nodes behind it.
"""

import asyncio
import getpass
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh
from asyncssh.encryption import get_encryption_algs
from asyncssh.kex import get_kex_algs
from asyncssh.mac import get_mac_algs
from asyncssh.public_key import get_certificate_algs, get_public_key_algs

from railwright.report.text import printable
from railwright.scan.login import ByAnsible, Login
from railwright.scan.ssh_config import Resolved, Settings, SshConfig, Unreadable, expanded

LOGIN_S, KEEPALIVE_S, KEEPALIVES = 60.0, 15, 4
TRIES, PAUSE_S = 3, 1.5  # sshd's MaxStartups drops connections at random while many come
NO_KEYS = ("/dev/null", "none")
# Exchanges whose secret a quantum computer of later does not give away.
POST_QUANTUM = ("mlkem768x25519-sha256", "mlkem768nistp256-sha256", "mlkem1024nistp384-sha384", "sntrup761x25519-sha512@openssh.com")
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")  # by the processor's own instructions; asyncssh's others cost thrice that
REASON = 300  # characters of what a node says


class Unreachable(Exception):
    """No command ran on the node; the text says why, and what to do."""


class _Options(NamedTuple):
    """What hosts share that one line of OpenSSH's configuration is about."""

    asyncssh: dict[str, Any]
    stray_keys: bool  # an unknown host key is taken, as ``StrictHostKeyChecking no`` has it
    by_ansible: str  # how OpenSSH could log in and asyncssh cannot; empty: in no way


class HostKeys(asyncssh.SSHClient):
    """Knows why a host key was not trusted."""

    def __init__(self, known: asyncssh.SSHKnownHosts, alias: str | None, *, stray_keys: bool) -> None:
        self._known, self._alias, self._stray_keys = known, alias, stray_keys
        self.unknown = False  # no key of this host is known at all

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        keys, authorities, *_others = self._known.match(self._alias or host, addr, None if port == asyncssh.DEFAULT_PORT else port)
        self.unknown = not keys and not authorities
        return self.unknown and self._stray_keys


class Connections:
    """All connections of one scan."""

    def __init__(self, config: SshConfig) -> None:
        self._config = config
        self._options: dict[tuple[int, bool], _Options | ByAnsible] = {}
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
                self._options[key] = self._made(shared, password, post_quantum=post_quantum)
            except ByAnsible as reason:
                self._options[key] = reason
        found = self._options[key]
        if isinstance(found, ByAnsible):
            raise found
        tokens = _tokens(config, host)
        known = self._known_hosts(shared, tokens)
        alias = _one(shared, "hostkeyalias")
        owner = HostKeys(known, alias, stray_keys=found.stray_keys)
        more: dict[str, Any] = {"known_hosts": known, "client_factory": lambda: owner, "host_key_alias": alias}
        if (command := _one(shared, "proxycommand")) is not None:
            try:
                more["proxy_command"] = expanded(command, tokens).removeprefix("exec ")
            except Unreadable as error:
                raise ByAnsible(f"ProxyCommand: {error}") from error
        elif (hops := _one(shared, "proxyjump")) is not None:
            more["tunnel"] = await self._jump(tuple(hops.split(",")))
        return await self._tried(config.hostname, {**found.asyncssh, **more}, owner, found)

    async def _tried(self, host: str, options: Mapping[str, Any], owner: HostKeys, shared: _Options) -> asyncssh.SSHClientConnection:
        for attempt in range(TRIES):
            try:
                async with asyncio.timeout(LOGIN_S):
                    return await asyncssh.connect(host, **options)
            except asyncssh.HostKeyNotVerifiable as error:
                raise Unreachable(_host_key_text(host, options["port"], str(error), owner)) from error
            except asyncssh.PermissionDenied as error:
                if shared.by_ansible:
                    raise ByAnsible(f"its login needs {shared.by_ansible}") from error
                raise Unreachable(_login_text(host, options, str(error))) from error
            except asyncssh.KeyExchangeFailed as error:
                raise ByAnsible("no algorithm of the key exchange that both sides have") from error
            except (asyncssh.ConnectionLost, ConnectionError, asyncssh.ProtocolError) as error:
                if isinstance(error, ConnectionRefusedError) or attempt == TRIES - 1:
                    raise Unreachable(fault_text(host, options["port"], error)) from error
                await asyncio.sleep(PAUSE_S * (attempt + 1))
            except (asyncssh.Error, OSError, TimeoutError, ValueError) as error:
                raise Unreachable(fault_text(host, options["port"], error)) from error
        raise AssertionError  # the last try returns or raises

    async def _jump(self, hops: tuple[str, ...]) -> asyncssh.SSHClientConnection:
        """The connection to the last of these, each through the one before; made once."""
        if hops not in self._jumps:
            self._jumps[hops] = asyncio.create_task(self._jumped(hops))
        try:
            return await asyncio.shield(self._jumps[hops])
        except Unreachable as error:
            raise Unreachable(f"jump host {hops[-1]}: {error}") from error

    async def _jumped(self, hops: tuple[str, ...]) -> asyncssh.SSHClientConnection:
        *before, hop = hops
        user, _at, place = hop.removeprefix("ssh://").rpartition("@")
        host, port = _split_port(place)
        arguments = [*(["-l", user] if user else []), *(["-p", port] if port else []), "-o", "BatchMode=yes"]
        arguments += ["-o", f"ProxyJump={','.join(before)}"] if before else []
        try:
            config = self._config.resolve(arguments, host)
        except Unreadable as error:
            raise ByAnsible(f"jump host {hop}: {error}") from error
        return await self._open(config, host, None, post_quantum=False)

    def _known_hosts(self, shared: Settings, tokens: Mapping[str, str]) -> asyncssh.SSHKnownHosts:
        files = tuple(expanded(name, tokens) for keyword in ("userknownhostsfile", "globalknownhostsfile") for name in _words(shared, keyword))
        if files not in self._known:
            present = [name for name in files if name not in NO_KEYS and os.access(name, os.R_OK)]
            self._known[files] = asyncssh.read_known_hosts(present) if present else asyncssh.import_known_hosts("")
        return self._known[files]

    def _made(self, shared: Settings, password: str | None, *, post_quantum: bool) -> _Options:
        default = self._config.default()
        methods = set((_one(shared, "preferredauthentications") or "publickey,password,keyboard-interactive").split(","))
        keys, missing = _client_keys(shared)
        if _one(shared, "gssapiauthentication") == "yes" and has_ticket():
            missing = missing or "Kerberos"
        strict = _one(shared, "stricthostkeychecking")
        found: dict[str, Any] = {
            "config": None, "port": int(_one(shared, "port") or 22), "username": _one(shared, "user"), "password": password,
            "client_keys": keys or None, "agent_path": _agent(shared), "agent_identities": _agent_keys(shared),
            "family": {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(_one(shared, "addressfamily") or "", socket.AF_UNSPEC),
            "local_addr": (_one(shared, "bindaddress"), 0) if _one(shared, "bindaddress") else None,
            "connect_timeout": int(_one(shared, "connecttimeout") or 0) or None, "login_timeout": LOGIN_S,
            "keepalive_interval": KEEPALIVE_S, "keepalive_count_max": KEEPALIVES, "compression_algs": None, "gss_kex": False, "gss_auth": False,
            "public_key_auth": _one(shared, "pubkeyauthentication") != "no" and "publickey" in methods,
            "password_auth": password is not None and _one(shared, "passwordauthentication") == "yes" and "password" in methods,
            "kbdint_auth": password is not None and _one(shared, "kbdinteractiveauthentication") == "yes" and "keyboard-interactive" in methods,
            "kex_algs": _algorithms(shared, default, "kexalgorithms", get_kex_algs(), POST_QUANTUM[:1]),
            "encryption_algs": _algorithms(shared, default, "ciphers", get_encryption_algs(), FAST_CIPHERS),
            "mac_algs": _algorithms(shared, default, "macs", get_mac_algs(), ()),
            "signature_algs": _algorithms(shared, default, "pubkeyacceptedalgorithms", get_public_key_algs(), ()),
            "x509_trusted_certs": None, "x509_trusted_cert_paths": [],
        }  # fmt: skip
        if post_quantum:
            found["kex_algs"] = [name for name in found["kex_algs"] if name in POST_QUANTUM]
            if not found["kex_algs"]:
                raise ByAnsible("a post-quantum key exchange is wanted")
        if shared.get("hostkeyalgorithms") != default.get("hostkeyalgorithms"):
            names = [*get_certificate_algs(), *get_public_key_algs()]
            found["server_host_key_algs"] = _algorithms(shared, default, "hostkeyalgorithms", names, ())
        # With OpenSSH a key that is taken so is written down; where it could not be, nothing is lost by not writing it.
        stray = strict in ("no", "false", "off") and all(name in NO_KEYS for name in _words(shared, "userknownhostsfile"))
        return _Options(found, stray, missing)


def _one(settings: Settings, keyword: str) -> str | None:
    value = settings.get(keyword, ("",))[0]
    return None if value in ("", "none") else value


def _words(settings: Settings, keyword: str) -> list[str]:
    return [word for value in settings.get(keyword, ()) for word in value.split()]


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
        "%": "%", "h": config.hostname, "n": host, "p": _one(shared, "port") or "22", "r": _one(shared, "user") or "", "d": str(Path.home()),
        "u": getpass.getuser(), "i": str(os.getuid()), "l": name, "L": name.partition(".")[0], "k": _one(shared, "hostkeyalias") or host,
    }  # fmt: skip


def _algorithms(
    settings: Settings, default: Settings, keyword: str, known: Sequence[bytes], first: Sequence[str]
) -> list[str]:  # fmt: skip
    """OpenSSH's list as far as asyncssh has it; where nobody has changed it, with ``first`` before the others. Raises ByAnsible."""
    names = {name.decode("ascii") for name in known}
    wanted = (_one(settings, keyword) or "").split(",")
    if settings.get(keyword) == default.get(keyword):
        wanted = [*first, *(name for name in wanted if name not in first)]
    found = [name for name in wanted if name in names]
    if not found:
        raise ByAnsible(f"{keyword} has none that asyncssh knows")
    return found


def _client_keys(shared: Settings) -> tuple[list[Any], str]:
    """Key pairs of the files that are there, and what one of them needs that asyncssh cannot give."""
    found: list[Any] = []
    missing = ""
    tokens = {"%": "%", "d": str(Path.home()), "u": getpass.getuser(), "r": _one(shared, "user") or ""}
    certificates = [expanded(name, tokens) for name in shared.get("certificatefile", ()) if name != "none"]
    for value in shared.get("identityfile", ()):
        try:
            name = expanded(value.strip('"'), tokens)
            if os.access(name, os.R_OK):
                found += asyncssh.load_keypairs(name, None, [item for item in certificates if os.access(item, os.R_OK)])
        except Unreadable as error:
            missing = f"IdentityFile: {error}"
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError, OSError, ValueError):
            pass  # one that needs a passphrase may be in the agent; a public key is of the agent's own
    return found, missing


def _agent(shared: Settings) -> str:
    """The socket of the agent; empty for none."""
    value = _one(shared, "identityagent")
    if shared.get("identityagent", ("",))[0] == "none":
        return ""
    if value is None or value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    return os.environ.get(value[1:], "") if value.startswith("$") else os.path.expanduser(value)


def _agent_keys(shared: Settings) -> list[Any] | None:
    """With IdentitiesOnly: the public keys of the identity files; None for all that the agent has."""
    if _one(shared, "identitiesonly") != "yes":
        return None
    found: list[Any] = []
    for value in shared.get("identityfile", ()):
        name = os.path.expanduser(value.strip('"'))
        for path in (f"{name}.pub", name):
            try:
                found.append(asyncssh.read_public_key(path).public_data)
                break
            except (asyncssh.KeyImportError, OSError, ValueError):
                continue
    return found


def has_ticket() -> bool:
    """Whether this user could log in by Kerberos."""
    cache = os.environ.get("KRB5CCNAME", f"FILE:/tmp/krb5cc_{os.getuid()}")
    return not cache.startswith("FILE:") or os.path.exists(cache[5:])


def _host_key_text(host: str, port: int, said: str, owner: HostKeys) -> str:
    name = host if port == asyncssh.DEFAULT_PORT else f"[{host}]:{port}"
    if "not trusted" not in said:
        return f"host key verification failed for {name}: {_short(said)}"
    if owner.unknown:
        return f"host key verification failed: no host key of {name} is known; compare it, then add it to known_hosts: ssh-keyscan, or ssh once"
    return (f"host key verification failed: the host key of {name} is another one than known_hosts has; if the node was installed anew, "
            f"remove the old key: ssh-keygen -R {name}. Else somebody answers in its place")


def _login_text(host: str, options: Mapping[str, Any], said: str) -> str:
    ways = [name for name, on in (("a key", options["public_key_auth"]), ("a password", options["password_auth"])) if on]
    return (f"login as {options['username']} on {host} was refused, with {' and '.join(ways) or 'no way to log in'} ({_short(said)}); "
            "check ansible_user, the key file or the agent, and the node's authorized_keys and sshd log")


def fault_text(host: str, port: int, error: Exception, *, began: bool = False) -> str:
    """``began``: whether the login was over, and the command ran."""
    place = f"{host} port {port}"
    if isinstance(error, TimeoutError):
        return f"no answer from {place} in time; is the node up, and does a firewall let ssh through?"
    if isinstance(error, ConnectionRefusedError):
        return f"connection to {place} refused; is sshd running there?"
    if isinstance(error, socket.gaierror):
        return f"the name {host} cannot be resolved; set ansible_host, or correct DNS"
    if isinstance(error, asyncssh.ChannelOpenError):
        return f"{place} cannot be reached through the jump host ({_short(error.reason)}); is the node up, and AllowTcpForwarding on there?"
    if isinstance(error, asyncssh.ConnectionLost | ConnectionError) and began:
        return f"{place} closed the connection in the middle of its answer ({_short(str(error))}); did the node go down or reboot?"
    if isinstance(error, asyncssh.ConnectionLost | ConnectionError):
        return f"{place} closed the connection before the login ({_short(str(error))}); see sshd's log there: MaxStartups, or sshd is ending"
    return f"ssh to {place} failed: {_short(str(error) or type(error).__name__)}"


def _short(text: str) -> str:
    """What a node had a say in, for one line."""
    return printable(" ".join(text.split()))[:REASON] or "no reason given"
