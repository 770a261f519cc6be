# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment in which ansible-playbook runs: our collection first, the operator's settings in force.

What we add is added only where neither the operator's environment nor the ansible.cfg
that Ansible itself would read says anything.
"""

import configparser
import importlib.util
import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from railwright.exitcodes import RunError
from railwright.given import given
from railwright.project import NAME

NAMESPACE = "railwright.rdma"
COLLECTION = Path("ansible_collections") / "railwright" / "rdma"
# ansible-core's own default of collections_path; setting the variable replaces it, so it is repeated.
DEFAULT_COLLECTIONS = "~/.ansible/collections:/usr/share/ansible/collections"
# ansible-core's default ssh_args, and keep-alives: without them a node that loses power in the middle of a
# task holds the run for ever. 4 x 15 s: longer than an openibd restart's pause, short enough to wait for.
SSH_ARGS = "-C -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
# Instead of ``sudo``: a login that is uid 0 already needs none, and a minimal image may have none. A task for another user keeps sudo.
SUDO_UNLESS_ROOT = (
    """/bin/sh -c 'bare() { while [ $# -gt 2 ]; do if [ "$1 $2" = "-u root" ]; then shift 2; exec "$@"; fi; shift; done; }; """
    """[ "$(id -u)" = 0 ] && bare "$@"; exec sudo "$@"' sudo"""
)
# Where an operator names another sudo: section and key of ansible.cfg, and the variable of the environment.
SUDO_PROGRAM = ((("privilege_escalation", "become_exe"), "ANSIBLE_BECOME_EXE"), (("sudo_become_plugin", "executable"), "ANSIBLE_SUDO_EXE"))
# Events above this many characters lose their result in the runner (its default is 700,000, less than the
# plan of a node whose configuration files differ).
MAX_EVENT_RES = 64 * 1024 * 1024


def ansible_environment(environ: Mapping[str, str], directory: Path) -> dict[str, str]:
    """What to set on top of ``environ`` for ansible-playbook started in ``directory``."""
    config = UserConfig.find(environ, directory)
    added = {
        "PATH": _path(environ),
        "ANSIBLE_COLLECTIONS_PATH": _collections_path(environ, config),
        "MAX_EVENT_RES": str(MAX_EVENT_RES),
    }
    if given.password is None:  # sshpass, of ansible-core before 2.19, answers ssh's question on a terminal
        # ssh must fail instead of asking: nobody can see its question in a run that others' output shares.
        added["SSH_ASKPASS"] = environ.get("SSH_ASKPASS", "/bin/false")
        added["SSH_ASKPASS_REQUIRE"] = environ.get("SSH_ASKPASS_REQUIRE", "force")
    # Nobody sees a question of ansible-playbook's here, so it would wait for ever; without an answer the node fails and says why.
    # The two whose answer we have the runner gives.
    added["ANSIBLE_ASK_PASS"] = str(given.password is not None)
    added["ANSIBLE_BECOME_ASK_PASS"] = str(given.become_password is not None)
    added |= {"ANSIBLE_AGNOSTIC_BECOME_PROMPT": "True", "ANSIBLE_ASK_VAULT_PASS": "False"}
    # Facts of a node would outrank the inventory. (The action plugins refuse them too, for who runs ansible-playbook himself.)
    added["ANSIBLE_INJECT_FACT_VARS"] = "False"
    # Ansible's own modules write their arguments into each node's syslog: values of the inventory, secrets among them.
    added["ANSIBLE_NO_TARGET_SYSLOG"] = "True"
    # The runner's callback builds on this one and takes no other; what it prints is seen with --debug only.
    added["ANSIBLE_STDOUT_CALLBACK"] = "default"
    # A diff beside the result would be shown to nobody, and makes a plan count as changed.
    added["ANSIBLE_DIFF_ALWAYS"] = "False"
    if environ.get("LC_ALL") in ("C", "POSIX"):
        added["LC_ALL"] = "C.UTF-8"  # Ansible runs in UTF-8 locales only; this one differs in nothing else
    if not config.says("ssh_connection", "ssh_args", environ, "ANSIBLE_SSH_ARGS"):
        added["ANSIBLE_SSH_ARGS"] = SSH_ARGS
    if not config.says("defaults", "forks", environ, "ANSIBLE_FORKS"):
        added["ANSIBLE_FORKS"] = str(forks())
    if not any(config.says(*place, environ, variable) for place, variable in SUDO_PROGRAM):
        added["ANSIBLE_BECOME_EXE"] = SUDO_UNLESS_ROOT
    if config.path is not None:
        added["ANSIBLE_CONFIG"] = str(config.path)
    return added


def forks() -> int:
    """Ansible's 5 is for one core; a fork mostly waits for its node, and ten a core keep a core busy."""
    return max(5, min(50, 10 * len(os.sched_getaffinity(0))))


def collection_root() -> Path:
    """The directory that holds ``ansible_collections`` with our collection: the wheel's or the checkout's."""
    for root in _roots():
        if (root / COLLECTION / "playbooks").is_dir():
            return root
    raise RunError(f"the Ansible collection {NAMESPACE} is not beside this railwright; fix it: pip install --force-reinstall {NAME}")


def _roots() -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec("ansible_collections.railwright.rdma")
    except ModuleNotFoundError:
        spec = None
    if spec is not None:
        for location in spec.submodule_search_locations or ():
            yield Path(location).parents[2]
    # The community package's ansible_collections is a regular package and hides an editable install's.
    for entry in sys.path:
        yield Path(entry or ".").absolute()


def _path(environ: Mapping[str, str]) -> str:
    """PATH with the directory of *our* ansible-playbook first: the environment need not be activated."""
    own = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("scripts", f"{os.name}_user"))]
    found = [str(directory) for directory in own if (directory / "ansible-playbook").exists()]
    return os.pathsep.join(dict.fromkeys([*found[:1], *environ.get("PATH", os.defpath).split(os.pathsep)]))


def _collections_path(environ: Mapping[str, str], config: "UserConfig") -> str:
    """Ours first: another version in the operator's home must not answer for this command line."""
    theirs = environ.get("ANSIBLE_COLLECTIONS_PATH") or config.paths("collections_path", "collections_paths")
    return os.pathsep.join([str(collection_root()), theirs or DEFAULT_COLLECTIONS])


def lacking(collections: Iterable[str]) -> list[str]:
    """Of these the ones that ansible-playbook, which looks beside its own packages as well, would not find."""
    named = ansible_environment(os.environ, Path.cwd())["ANSIBLE_COLLECTIONS_PATH"].split(os.pathsep)
    paths = [Path(path).expanduser() for path in [*named, *sys.path]]
    roots = [path if path.name == "ansible_collections" else path / "ansible_collections" for path in paths]
    return [name for name in collections if not any((root / name.replace(".", "/")).is_dir() for root in roots)]


class UserConfig:
    """The ansible.cfg that Ansible would read, found by Ansible's own rules."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._parser = configparser.ConfigParser(inline_comment_prefixes=(";",), interpolation=None, strict=False)
        if path is not None:
            try:
                self._parser.read_string(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, configparser.Error):
                # Ansible reports a broken file better than we would, and in its own words.
                self._parser.clear()

    @classmethod
    def find(cls, environ: Mapping[str, str], directory: Path) -> "UserConfig":
        named = environ.get("ANSIBLE_CONFIG")
        if named:
            path = Path(named).expanduser()
            return cls(path / "ansible.cfg" if path.is_dir() else path)
        candidates = [directory / "ansible.cfg", Path("~/.ansible.cfg").expanduser(), Path("/etc/ansible/ansible.cfg")]
        if _world_writable(directory):
            candidates = candidates[1:]
        return cls(next((path for path in candidates if os.access(path, os.R_OK)), None))

    def says(self, section: str, key: str, environ: Mapping[str, str], variable: str) -> bool:
        return variable in environ or self._parser.has_option(section, key)

    def paths(self, *keys: str) -> str:
        """A path list of [defaults]; relative entries are relative to the file, as Ansible has it."""
        for key in keys:
            value = self._parser.get("defaults", key, fallback="")
            if value and self.path is not None:
                base = self.path.parent
                return os.pathsep.join(str(base / Path(part.strip()).expanduser()) for part in value.split(os.pathsep) if part.strip())
        return ""

    def plugins(self) -> Iterator[tuple[str, Path]]:
        """The directories of plugins that the file names and that are there, each with its key."""
        keys = self._parser.options("defaults") if self._parser.has_section("defaults") else ()
        for key in sorted(key for key in keys if key.endswith("_plugins") or key in ("library", "module_utils")):
            yield from ((key, path) for path in map(Path, self.paths(key).split(os.pathsep)) if path.is_absolute() and path.is_dir())


def _world_writable(directory: Path) -> bool:
    """Ansible does not trust an ansible.cfg in a directory that anybody can write to."""
    try:
        return bool(directory.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return True
