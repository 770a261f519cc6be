# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's side of the ssh mesh: look, make the key, hand it over, write the files, take them away, prove it.

What lies in a home is touched with its user's rights. The private key is never a
return value of anything but ``read_key``, whose task hides its result.
"""

from typing import Any, ContextManager, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..areas.common.files import FileState, is_ours, observe_file
from ..errors import RailwrightError
from ..formats.outside import lines_in, whole
from ..host import host as accounts
from ..host.host import Host
from ..observe import accounts as users
from ..observe.nics import observe_addresses, uplinks
from . import files as texts

KEY = "ssh_mesh_user"
NEEDS_JOB = ("pam_slurm_adopt refuses ssh logins of %s without a job on this node, so the mesh is of no use; start ranks by srun "
             "(nccl_tests_launcher: slurm)")
CONFIGURATIONS = ("/etc/ssh/ssh_config", "/usr/etc/ssh/ssh_config")
INCLUDE = "ssh_config.d/"
ROOT_LOGIN = ("no", "forced-commands-only")
HOST_KEYS = 16  # no sshd has more
LOGIN_SECONDS = 30.0


class Account(accounts.Account):
    """With the place of the mesh's key."""

    @property
    def directory(self) -> str:
        return self.home + "/.ssh"

    @property
    def key(self) -> str:
        return "%s/%s" % (self.directory, texts.KEY)


class Daemon(NamedTuple):
    """What sshd makes of its configuration for the mesh's user."""

    port: int
    host_keys: Tuple[str, ...]
    authorized: Optional[str]
    problem: Optional[str]


def account(name: str) -> Account:
    found = accounts.account(name, KEY)
    return Account(name, found.uid, found.gid, found.home.rstrip("/"))


def job_account(host: Host, name: Optional[str], root: bool) -> Account:
    """The mesh's user; ``root``: uid 0 is accepted. Raises RailwrightError."""
    return account(users.job_account(host, name, KEY, root).name)


def as_owner(host: Host, who: Account, path: str) -> ContextManager[None]:
    """The rights to touch a path with: the user's own inside the home; outside of it the administrator's."""
    if path.startswith(who.home + "/"):
        return host.acting_as(who.name, who.uid, who.gid)
    return host.acting_as("root", 0, 0)


def observe(host: Host, who: Account, connection: Optional[str]) -> Dict[str, Any]:
    """What the others must know of this node, and what it has already. No secret is in it."""
    daemon = ask_sshd(host, who)
    needs_job = NEEDS_JOB % who.name if who.uid != 0 and users.logins_need_job(host) else None
    problems = [text for text in (daemon.problem, client_problem(host), needs_job) if text is not None]
    found: Optional[texts.Authorized] = None
    if daemon.authorized is not None:
        found = texts.authorized(read_authorized(host, who, daemon.authorized))
    return {
        "user": who.name, "public_key": own_key(host, who), "authorized": None if found is None else list(found),
        "addresses": own_addresses(host, connection), "port": daemon.port, "host_keys": list(daemon.host_keys),
        "hostname": host.line("/proc/sys/kernel/hostname") or "", "problems": problems,
    }


def ask_sshd(host: Host, who: Account) -> Daemon:
    """``sshd -T`` for this user: port, host keys, and where it looks for authorized keys."""
    sshd = host.which("sshd")
    if sshd is None:
        return Daemon(22, (), None, "sshd is not installed")
    answer = host.run((sshd, "-T", "-C", "user=%s,host=localhost,addr=127.0.0.1" % who.name))
    if not answer.ok:
        return Daemon(22, (), None, "sshd -T: %s" % (lines_in(answer.err.strip()) or ["exit %d" % answer.rc])[0])
    values: Dict[str, List[str]] = {}
    for line in lines_in(answer.out):
        name, _blank, value = line.strip().partition(" ")
        values.setdefault(name, []).append(value)
    files = values.get("authorizedkeysfile", [".ssh/authorized_keys"])[0].split()
    problem: Optional[str] = None
    if values.get("pubkeyauthentication", ["yes"])[0] != "yes":
        problem = "sshd has PubkeyAuthentication no for %s" % who.name
    elif who.uid == 0 and values.get("permitrootlogin", ["yes"])[0] in ROOT_LOGIN:
        problem = "sshd has PermitRootLogin %s; set ssh_mesh_user to the user that starts jobs" % values["permitrootlogin"][0]
    elif not files or files[0] == "none":
        problem = "sshd has AuthorizedKeysFile none for %s" % who.name
    keys = texts.good_host_keys([host.read(path + ".pub") or "" for path in values.get("hostkey", [])[:HOST_KEYS]])
    if problem is None and not keys:
        problem = "sshd has no host key of type ed25519, ecdsa or rsa"
    path = None if problem is not None else expanded(files[0], who)
    return Daemon(whole(values.get("port", ["22"])[0], 1, 65535) or 22, keys, path, problem)


def expanded(pattern: str, who: Account) -> str:
    """AuthorizedKeysFile with its tokens replaced (sshd_config(5)); relative to the home."""
    tokens = {"%%": "%", "%h": who.home, "%u": who.name, "%U": str(who.uid)}
    out: List[str] = []
    at: int = 0
    while at < len(pattern):
        pair = pattern[at:at + 2]
        out.append(tokens.get(pair, pattern[at]))
        at += 2 if pair in tokens else 1
    path = "".join(out)
    return path if path.startswith("/") else "%s/%s" % (who.home, path)


def client_problem(host: Host) -> Optional[str]:
    if host.which("ssh") is None or host.which("ssh-keygen") is None:
        return "the ssh client is not installed"
    for path in CONFIGURATIONS:
        for line in lines_in(host.read(path) or ""):
            words = line.split()
            if words and words[0].lower() == "include" and any(INCLUDE in word for word in words[1:]):
                return None
    return ("the ssh client does not read /etc/ssh/ssh_config.d; put a line Include /etc/ssh/ssh_config.d/*.conf first in %s"
            % CONFIGURATIONS[0])


def own_addresses(host: Host, connection: Optional[str]) -> List[str]:
    """Of every interface that leads out the first IPv4 address (more may be a cluster's, and move), else the controller's way in."""
    held = observe_addresses(host)
    found: List[str] = []
    for name in uplinks(host, connection):
        fourth = [text.partition("/")[0] for text in held.get(name, []) if ":" not in text]
        found += fourth[:1]
    if connection is not None and connection not in found and (":" not in connection or not found):
        found.append(connection)
    return found


def own_key(host: Host, who: Account) -> Optional[str]:
    """The public half of a private key that ssh would use: ours, readable, with the right mode, and its .pub beside it."""
    with host.acting_as(who.name, who.uid, who.gid):
        if host.mode(who.key) != 0o600:
            return None
        answer = host.run(("ssh-keygen", "-y", "-P", "", "-f", who.key))
        written = (host.read(who.key + ".pub") or "").strip()
    match = texts.PUBLIC.fullmatch(written)
    derived = " ".join(answer.out.split()[:2])
    return written if answer.ok and match is not None and match.group("blob") == derived else None


def read_authorized(host: Host, who: Account, path: str) -> str:
    """The file as it is, or nothing. One that is not whole text is not ours to write anew."""
    with as_owner(host, who, path):
        kept = host.snapshot(path)
    try:
        return "" if kept is None or kept.content is None else kept.content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RailwrightError("%s is not UTF-8 text; fix it first" % path) from error


def generate(host: Host, who: Account, generation: int, serial: int) -> str:
    """A new pair in place of the old one; returns the public half."""
    new = who.key + ".new"
    with host.acting_as(who.name, who.uid, who.gid):
        host.make_directory(who.directory, 0o700)
        try:
            for path in (new, new + ".pub"):
                host.remove(path)
            comment = "railwright-mesh generation=%d serial=%d" % (generation, serial)
            answer = host.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", new))
            private, public = host.read(new), (host.read(new + ".pub") or "").strip()
            if not answer.ok or private is None:
                raise RailwrightError("ssh-keygen: %s" % (answer.err.strip() or "no key was made"))
            write_pair(host, who, private, public)
        finally:
            for path in (new, new + ".pub"):
                host.remove(path)
    return public


def read_key(host: Host, who: Account) -> str:
    """The private key. Only for a task that hides its result."""
    with host.acting_as(who.name, who.uid, who.gid):
        private = host.read(who.key)
    if private is None:
        raise RailwrightError("%s cannot be read" % who.key)
    return private


def receive_key(host: Host, who: Account, private: str, public: str) -> None:
    """Write the pair that another node made, after ssh-keygen has said that its halves belong together."""
    match = texts.PUBLIC.fullmatch(public)
    if match is None:
        raise RailwrightError("what came as the mesh's public key is none")
    with host.acting_as(who.name, who.uid, who.gid):
        host.make_directory(who.directory, 0o700)
        write_pair(host, who, private, public)
    if own_key(host, who) != public:
        with host.acting_as(who.name, who.uid, who.gid):
            host.remove(who.key)
        raise RailwrightError("the private key that came does not belong to the mesh's public key; it was removed again")


def write_pair(host: Host, who: Account, private: str, public: str) -> None:
    host.write(who.key, private, 0o600)
    host.write(who.key + ".pub", public + "\n", 0o644)


def files(host: Host, user: str, members: Sequence[texts.Member]) -> List[Tuple[FileState, str]]:
    """The two files in /etc/ssh: as they are, as they should be."""
    pairs = [
        (observe_file(host, texts.KNOWN_HOSTS), texts.known_hosts(members)),
        (observe_file(host, texts.CLIENT), texts.client(user, members)),
    ]
    for state, _wanted in pairs:
        if state.foreign:
            raise RailwrightError("%s was not written by railwright; move it away first" % state.path)
    return pairs


def login(host: Host, who: Account, name: str) -> Optional[str]:
    """Log into another node as the user, the way mpirun does; None when it worked, else what ssh said."""
    ssh = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", name, "true")
    # The user's own ssh configuration runs programs: root's environment is not for them.
    drop = ("setpriv", "--reuid=%d" % who.uid, "--regid=%d" % who.gid, "--init-groups", "env", "-i", "HOME=" + who.home,
            "PATH=" + accounts.SEARCH_PATH)
    answer = host.run(ssh if who.uid == host.user() else drop + ssh, LOGIN_SECONDS)
    if answer.ok:
        return None
    return (lines_in(answer.err.strip()) or ["exit %d" % answer.rc])[-1]


def try_logins(host: Host, name: Optional[str], peers: Sequence[str], root: bool) -> Dict[str, Any]:
    """Whether the mesh's files are here and, where they are, by peer None or what ssh said. Changes nothing."""
    user = name or host.login()
    if not is_ours(host.read(texts.CLIENT) or ""):
        return {"configured": False, "user": user, "logins": {}}
    who = account(user)
    refused = users.root_problem(who, name, KEY, root)
    return {"configured": True, "user": user, "logins": {peer: refused or login(host, who, peer) for peer in peers}}
