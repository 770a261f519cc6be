# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenSSH's configuration of a node means to asyncssh: algorithms by OpenSSH's names, files of keys, the agent, ways to log in."""

import getpass
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh
from asyncssh.encryption import get_encryption_algs
from asyncssh.kex import get_kex_algs
from asyncssh.mac import get_mac_algs
from asyncssh.public_key import get_certificate_algs, get_public_key_algs

from railwright.scan.login import ByAnsible
from railwright.scan.ssh_config import Settings, Unreadable, expanded

LOGIN_S, KEEPALIVE_S, KEEPALIVES = 60.0, 15, 4
CERTIFICATE_OF_A_USER = 1  # SSH2_CERT_TYPE_USER of PROTOCOL.certkeys
NO_KEYS = ("/dev/null", "none")
# Exchanges whose secret a quantum computer of later does not give away.
POST_QUANTUM = ("mlkem768x25519-sha256", "mlkem768nistp256-sha256", "mlkem1024nistp384-sha384", "sntrup761x25519-sha512@openssh.com")
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")  # by the processor's own instructions; others cost thrice that


class Options(NamedTuple):
    """What hosts share that one line of OpenSSH's configuration is about."""

    asyncssh: dict[str, Any]
    strict: str  # StrictHostKeyChecking
    stray_keys: bool  # an unknown host key is taken, and there is nowhere to write it down
    by_ansible: str  # how OpenSSH could log in and asyncssh cannot; empty: in no way
    hints: list[str]  # why a login may fail
    connect_s: float | None  # ConnectTimeout: of the way to the port; asyncssh's own would be of the login too


def connection_options(shared: Settings, default: Settings, password: str | None, *, post_quantum: bool) -> Options:
    """``default``: OpenSSH's own. Raises ByAnsible."""
    methods = set((one(shared, "preferredauthentications") or "publickey,password,keyboard-interactive").split(","))
    keys, missing, hints = client_keys(shared)
    if one(shared, "gssapiauthentication") == "yes" and has_ticket():
        missing = missing or "Kerberos"
    strict = {"false": "no", "off": "no"}.get(one(shared, "stricthostkeychecking") or "", one(shared, "stricthostkeychecking") or "ask")
    if (socket_path := agent_socket(shared)) and not answers(socket_path):
        hints.append(f"the agent at {socket_path} does not answer")
    found: dict[str, Any] = {
        "config": None, "port": int(one(shared, "port") or 22), "username": one(shared, "user"), "password": password,
        "client_keys": keys or None, "agent_path": socket_path, "agent_identities": agent_keys(shared),
        "family": {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(one(shared, "addressfamily") or "", socket.AF_UNSPEC),
        "local_addr": (one(shared, "bindaddress"), 0) if one(shared, "bindaddress") else None,
        "login_timeout": LOGIN_S,
        "keepalive_interval": KEEPALIVE_S, "keepalive_count_max": KEEPALIVES, "compression_algs": None, "gss_kex": False,
        "gss_auth": False,
        "public_key_auth": one(shared, "pubkeyauthentication") != "no" and "publickey" in methods,
        "password_auth": password is not None and one(shared, "passwordauthentication") == "yes" and "password" in methods,
        "kbdint_auth": (
            password is not None and one(shared, "kbdinteractiveauthentication") == "yes" and "keyboard-interactive" in methods),
        "kex_algs": algorithms(shared, default, "kexalgorithms", get_kex_algs(), POST_QUANTUM[:1]),
        "encryption_algs": algorithms(shared, default, "ciphers", get_encryption_algs(), FAST_CIPHERS),
        "mac_algs": algorithms(shared, default, "macs", get_mac_algs(), ()),
        "signature_algs": algorithms(shared, default, "pubkeyacceptedalgorithms", get_public_key_algs(), ()),
        "x509_trusted_certs": None, "x509_trusted_cert_paths": [],
    }  # fmt: skip
    if post_quantum:
        found["kex_algs"] = [name for name in found["kex_algs"] if name in POST_QUANTUM]
        if not found["kex_algs"]:
            raise ByAnsible("a post-quantum key exchange is wanted")
    if shared.get("hostkeyalgorithms") != default.get("hostkeyalgorithms"):
        names = [*get_certificate_algs(), *get_public_key_algs()]
        found["server_host_key_algs"] = algorithms(shared, default, "hostkeyalgorithms", names, ())
    # With OpenSSH a key that is taken so is written down; where it could not be, nothing is lost by not writing it.
    stray = strict == "no" and all(name in NO_KEYS for name in words_of(shared, "userknownhostsfile"))
    return Options(found, strict, stray, missing, hints, float(one(shared, "connecttimeout") or 0) or None)


def one(settings: Settings, keyword: str) -> str | None:
    value = settings.get(keyword, ("",))[0]
    return None if value in ("", "none") else value


def words_of(settings: Settings, keyword: str) -> list[str]:
    return [word for value in settings.get(keyword, ()) for word in value.split()]


def algorithms(
    settings: Settings, default: Settings, keyword: str, known: Sequence[bytes], first: Sequence[str]
) -> list[str]:  # fmt: skip
    """OpenSSH's list as far as asyncssh has it; where nobody has changed it, with ``first`` before the others. Raises ByAnsible."""
    names = {name.decode("ascii") for name in known}
    wanted = (one(settings, keyword) or "").split(",")
    if settings.get(keyword) == default.get(keyword):
        wanted = [*first, *(name for name in wanted if name not in first)]
    found = [name for name in wanted if name in names]
    if not found:
        raise ByAnsible(f"{keyword} has none that asyncssh knows")
    return found


def client_keys(shared: Settings) -> tuple[list[Any], str, list[str]]:
    """Key pairs of the files that are there, what one of them needs that asyncssh cannot give, and what is wrong with others."""
    found: list[Any] = []
    hints: list[str] = []
    missing = ""
    tokens = {"%": "%", "d": str(Path.home()), "u": getpass.getuser(), "r": one(shared, "user") or ""}
    named = [expanded(name, tokens) for name in shared.get("certificatefile", ()) if name != "none"]
    certificates = [name for name in named if os.access(name, os.R_OK)]
    for value in shared.get("identityfile", ()):
        try:
            name = expanded(value.strip('"'), tokens)
            if os.access(name, os.R_OK):
                found += asyncssh.load_keypairs(name, None, certificates)
                certificates += [f"{name}-cert.pub"] if os.access(f"{name}-cert.pub", os.R_OK) else []
        except Unreadable as error:
            missing = f"IdentityFile: {error}"
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError) as error:  # a public key is the agent's
            if "assphrase" in str(error):
                hints.append(f"the key {name} needs a passphrase, which only an agent that holds the key does without")
        except (OSError, ValueError):
            pass
    return found, missing, hints + expired(certificates, one(shared, "user") or "")


def expired(files: Iterable[str], user: str) -> list[str]:
    """What is wrong with certificates of this user."""
    found = []
    for name in dict.fromkeys(files):
        try:
            certificate: Any = asyncssh.read_certificate(name)
            certificate.validate(CERTIFICATE_OF_A_USER, user)
        except (asyncssh.Error, OSError, ValueError) as error:
            found.append(f"the certificate {name}: {error}")
    return found


def answers(path: str) -> bool:
    """Whether somebody listens on a local socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def agent_socket(shared: Settings) -> str:
    """The socket of the agent; empty for none."""
    value = one(shared, "identityagent")
    if shared.get("identityagent", ("",))[0] == "none":
        return ""
    if value is None or value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    return os.environ.get(value[1:], "") if value.startswith("$") else str(Path(value).expanduser())


def agent_keys(shared: Settings) -> list[Any] | None:
    """With IdentitiesOnly: the public keys of the identity files; None for all that the agent has."""
    if one(shared, "identitiesonly") != "yes":
        return None
    found: list[Any] = []
    for value in shared.get("identityfile", ()):
        name = str(Path(value.strip('"')).expanduser())
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
    return not cache.startswith("FILE:") or Path(cache[5:]).exists()
