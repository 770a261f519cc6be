# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints as gpg computes them, of keyrings in every form that vendors publish; garbage has none."""

import base64
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.formats.openpgp import extract, fingerprints, packets

gpg_wanted = pytest.mark.skipif(shutil.which("gpg") is None, reason="this machine has no gpg to compare with")


def gpg(home: Path, *argv: str) -> bytes:
    environment = dict(os.environ, GNUPGHOME=str(home), LC_ALL="C")
    return subprocess.run(["gpg", "--batch", "--quiet", *argv], check=True, capture_output=True, env=environment).stdout


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Two keys, one with a subkey, exported armoured and binary, with the fingerprints that gpg prints."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    found: dict[str, bytes] = {}
    for name, kind in (("one", "ed25519"), ("two", "rsa2048")):
        gpg(home, "--passphrase", "", "--quick-generate-key", f"{name}@example.com", kind, "sign", "never")
        listed = gpg(home, "--with-colons", "--list-keys", f"{name}@example.com").decode()
        found[name] = next(row.split(":")[9] for row in listed.splitlines() if row.startswith("fpr")).encode()
    gpg(home, "--passphrase", "", "--quick-add-key", found["one"].decode(), "cv25519", "encr", "never")
    for name in ("one", "two"):
        found[name + ".asc"] = gpg(home, "--armor", "--export", f"{name}@example.com")
        found[name + ".gpg"] = gpg(home, "--export", f"{name}@example.com")
    found["both.gpg"] = gpg(home, "--export")
    gpg_conf = subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
    assert gpg_conf.returncode == 0
    return found


@gpg_wanted
def test_armoured_and_binary_keys_have_gpgs_fingerprint(keys: dict[str, bytes]) -> None:
    for name in ("one", "two"):
        assert fingerprints(keys[name + ".asc"]) == fingerprints(keys[name + ".gpg"]) == (keys[name].decode(),)


@gpg_wanted
def test_every_key_of_a_keyring_is_named(keys: dict[str, bytes]) -> None:
    both = (keys["one"].decode(), keys["two"].decode())
    assert fingerprints(keys["both.gpg"]) == both
    assert fingerprints(keys["one.asc"] + b"\n" + keys["two.asc"]) == both
    assert fingerprints(b"text before\r\n" + keys["two.asc"].replace(b"\n", b"\r\n")) == (both[1],)


@gpg_wanted
def test_the_checksum_of_the_armour_is_optional(keys: dict[str, bytes]) -> None:
    bare = b"\n".join(row for row in keys["one.asc"].splitlines() if not row.startswith(b"="))
    assert bare != keys["one.asc"]
    assert fingerprints(bare) == (keys["one"].decode(),)


@gpg_wanted
@pytest.mark.parametrize("name", ["one", "two"])
def test_one_key_of_a_keyring_as_gpg_reads_it_back(keys: dict[str, bytes], tmp_path: Path, name: str) -> None:
    """The other key of the keyring does not come along; subkeys and user ids do."""
    fingerprint = keys[name].decode()
    text = extract(keys["both.gpg"], fingerprint)
    assert text is not None
    assert packets(text.encode()) == packets(keys[name + ".gpg"])
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "key.asc").write_text(text)
    listed = gpg(tmp_path / "home", "--with-colons", "--show-keys", str(tmp_path / "key.asc")).decode().splitlines()
    assert next(row.split(":")[9] for row in listed if row.startswith("fpr")) == fingerprint
    assert [row.split(":")[9] for row in listed if row.startswith("uid")] == [f"{name}@example.com"]
    assert extract(keys["both.gpg"], "0" * 40) is None


def test_version_6_from_the_sample_certificate_of_rfc_9580() -> None:
    """RFC 9580, appendix A.3: the primary key packet of the sample v6 certificate."""
    packet = base64.b64decode("xioGY4d/4xsAAAAg+U2nu0jWCmHlZ3BqZYfQMxmZu52JGggkLq2EVD34laM=")
    assert fingerprints(packet) == ("CB186C4F0609A697E4D52DFA6C722B0C1F1E27C18A56708F6525EC27BAD9ACC9",)


@gpg_wanted
def test_a_changed_key_has_another_fingerprint(keys: dict[str, bytes]) -> None:
    changed = bytearray(keys["two.gpg"])
    changed[40] ^= 1
    assert fingerprints(bytes(changed)) != (keys["two"].decode(),)


def test_garbage_has_no_fingerprint_and_never_raises() -> None:
    for size in (0, 1, 2, 5, 40, 300, 5000):
        for repeat in range(50):
            data = (hashlib.sha512(b"%d %d" % (size, repeat)).digest() * 80)[:size]
            fingerprints(data)
            fingerprints(b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n" + data + b"\n-----END PGP PUBLIC KEY BLOCK-----\n")
    for data in (b"<html>404</html>", b"\x99", b"\xc6\xff", b"\x98\x7f\x04", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: 1\n"):
        assert fingerprints(data) == ()


@gpg_wanted
def test_truncated_keys_do_not_pass(keys: dict[str, bytes]) -> None:
    for end in range(1, 60):
        assert keys["two"].decode() not in fingerprints(keys["two.gpg"][:end])
