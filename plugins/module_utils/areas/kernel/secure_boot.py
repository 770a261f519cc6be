# SPDX-License-Identifier: GPL-3.0-or-later
"""The key that DKMS signs modules with, enrolled where Secure Boot is on: made, put forward, confirmed by a person at the console.

Only who sits at the console can have shim trust a key. Its MokManager asks for the password at the next boot, waits ten seconds for
somebody, and forgets the request where nobody comes. So no reboot of ours is part of it, and an apply ends before anything is built
(tasks/secure_boot.yml of rdma_stack). Each inspection says which steps are left, and none is made twice.

The password is known here by its hash alone, which mokutil reads from its standard input: no file, command line or journal has it.
"""

from typing import List, NamedTuple, Optional, Tuple

from ...host.host import Host
from ...observe.boot import Mok, observe_mok, secure_boot
from ...spec.model import Spec
from ...types import Change, Identity, Op, Problem, run

NAME = "secure_boot"
SOURCE = "dkms(8) (mok_signing_key, mok_certificate); mokutil(1); MokManager of shim"
# Private key and certificate, where DKMS looks for them; it makes them itself when it first signs, which would be too late here.
DKMS_KEY = ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
UBUNTU_KEY = ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
# For modules only, as Ubuntu's own are: shim starts nothing that is signed with such a key.
USAGE = "extendedKeyUsage=codeSigning,1.3.6.1.4.1.2312.16.1.2"


class Desired(NamedTuple):
    """``password``: its hash; None where keys are nobody's business, as in a container."""

    password: Optional[str]
    key: Tuple[str, str]


class Observed(NamedTuple):
    """``mok`` is None without Secure Boot, and where nothing is asked for."""

    mok: Optional[Mok] = None
    openssl: bool = True
    others: bool = False  # a key of somebody else waits for the console


def desired(spec: Spec, identity: Identity) -> Desired:
    return Desired(None if identity.has("container") else spec["mok_password_hash"],
                   UBUNTU_KEY if identity.platform.id == "ubuntu" else DKMS_KEY)


def observe(host: Host, desired: Desired) -> Observed:
    if desired.password is None or not secure_boot(host):
        return Observed()
    mok = observe_mok(host, True)
    ours = mok.enrolled is not False or mok.pending
    return Observed(mok, host.which("openssl") is not None,
                    not ours and "[key" in host.run(("mokutil", "--list-new"), 10.0).out)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    mok = observed.mok
    if mok is None or mok.enrolled is not False or desired.password is None:
        return []
    changes: List[Change] = []
    path = mok.key or desired.key[1]
    if mok.key is None:
        changes.append(Change(NAME, "key of DKMS", None, path, "none", "modules that are built here need a signature", SOURCE,
                              _made(*desired.key)))
    if not mok.pending:
        # Undone, nothing waits any more; what waited for somebody else is refused before (conflicts).
        ops = (run(("mokutil", "--import", path, "--hash-file", "/dev/stdin"), (("mokutil", "--revoke-import"),), stdin=desired.password),)
        changes.append(Change(NAME, "key of DKMS put forward for enrolment", None, path, "secure_boot",
                              "the kernel refuses every module whose key shim does not know", SOURCE, ops))
    state = "waits for the console" if mok.pending else "not enrolled"
    why = ("a person confirms it: reboot, and in MOK management, which waits ten seconds for a key, choose Enroll MOK, Continue, Yes, type "
           "the password, choose Reboot; then apply again")
    return [*changes, Change(NAME, "key of DKMS enrolled at the console", state, "enrolled", "secure_boot", why, SOURCE, ())]


def _made(private: str, certificate: str) -> Tuple[Op, ...]:
    """As DKMS makes its own; openssl gives the private key to nobody but root."""
    made = ("openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", "36500", "-outform", "DER",
            "-subj", "/CN=DKMS module signing key", "-addext", USAGE, "-keyout", private, "-out", certificate)
    return run(("mkdir", "-p", private.rpartition("/")[0])), run(made, (("rm", "-f", private, certificate),))


def conflicts(_desired: Desired, observed: Observed) -> List[Problem]:
    mok = observed.mok
    if mok is None or mok.enrolled:
        return []
    if mok.enrolled is None:
        return [Problem(NAME, "mokutil", "does not tell whether %s is enrolled, or is missing: install it, or unset rdma_mok_password_hash"
                        % mok.key)]
    if mok.key is None and not observed.openssl:
        return [Problem(NAME, "openssl", "is not on this node, so no key can be made: install it, or unset rdma_mok_password_hash")]
    return [Problem(NAME, "Secure Boot", "another key waits for the console already (mokutil --list-new): confirm it at the next boot, or "
                    "take it back (mokutil --revoke-import)")] if observed.others else []
