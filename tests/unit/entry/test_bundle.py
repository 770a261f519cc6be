# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as an archive: it is judged as the node was, and none of the secrets that lie where a check reads is in it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.lib.node_trees import NODES

from ansible_collections.railwright.rdma.plugins.module_utils.entry.alone import answer, judged_alone, recorded
from ansible_collections.railwright.rdma.plugins.module_utils.formats.secrets import fit_answer, fit_to_leave
from ansible_collections.railwright.rdma.plugins.module_utils.host import recording
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import FAILED, Result, TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.host.recording import RecordingHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl import LOGIN, SHELLS, SHOW, observe_nccl
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import passed
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec as wish
from railwright.check import archive, fit
from railwright.exitcodes import InputError

SPEC = wish().as_dict()
WORD = "hunter2-%s-Xy9"
# Ten secrets: where each lies, and the text that must not leave.
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
PLANTED = {
    "etc/shadow": (f"root:{WORD % 'shadow'}:19000::::::\n", WORD % "shadow"),
    "root/.ssh/id_ed25519": (KEY, "b3BlbnNzaC1rZXktdjEAAAAA"),
    "etc/profile.d/site.sh": (f"export SITE={WORD % 'profile'}\nexport NCCL_DEBUG=WARN\n", WORD % "profile"),
    "etc/nccl.conf": ("NCCL_DEBUG=WARN\nHF_TOKEN=hf_Qm2x9Qm2x9Qm2x9Qm2x9\n", "hf_Qm2x9Qm2x9Qm2x9Qm2x9"),
    "proc/cmdline": (f"BOOT_IMAGE=/vmlinuz iommu=pt ceph.secret={WORD % 'cmdline'} quiet\n", WORD % "cmdline"),
    "etc/docker/daemon.json": (f'{{"proxies": {{"http-proxy": "http://u:{WORD % "proxy"}@p:3128"}}, "runtimes": {{}}}}\n', WORD % "proxy"),
    "etc/apt/sources.list.d/site.list": (f"deb https://me:{WORD % 'apt'}@repo.example.com/ x main\n", WORD % "apt"),
    "etc/NetworkManager/system-connections/wg.nmconnection": (
        "[wireguard]\nprivate-key=QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=\n", "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8="),
    f"cmd/{recording_name(SHOW)}": (f"LANG=C\nNCCL_IB_TC=106\nDB={WORD % 'systemd'}\n", WORD % "systemd"),
    f"cmd/{recording_name((*LOGIN, *SHELLS[0][1]))}": (f"\0HOME=/root\0NCCL_IB_TC=41\0WANDB={WORD % 'login'}\0", WORD % "login"),
}


def unpacked(bundle: dict[str, Any], place: Path) -> Path:
    """By tar itself, as a person does."""
    (place / "x.tar.gz").write_bytes(archive(bundle, "n1"))
    subprocess.run(("tar", "-xzf", "x.tar.gz"), cwd=place, check=True)
    return place / "n1"


@pytest.mark.parametrize("name", sorted(path.name for path in NODES.iterdir()))
def test_a_bundle_is_judged_as_its_node(name: str, tmp_path: Path) -> None:
    host = TreeHost(str(NODES / name))
    found = passed("railwright.rdma.rdma_check", "bundle", answer(host, {"mode": "bundle", "node": "n1", "spec": SPEC}, False))
    assert not found.get("failed"), found
    tree = unpacked(found["bundle"], tmp_path)
    assert judged_alone(TreeHost(str(tree)), "n1", SPEC) == judged_alone(host, "n1", SPEC)


def test_no_planted_secret_leaves_the_node(tmp_path: Path) -> None:
    tree = tmp_path / "node"
    shutil.copytree(NODES / "doca8", tree, symlinks=True)
    for path, (text, _secret) in PLANTED.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    host = RecordingHost(TreeHost(str(tree)), fit_to_leave, fit_answer)
    judged_alone(host, "n1", SPEC)
    for path in (path for path in PLANTED if not path.startswith("cmd/")):  # also what a check does not read today
        host.read(f"/{path}")
        host.status(f"/{path}")
    for argv in (SHOW, (*LOGIN, *SHELLS[0][1])):
        assert host.run(argv).ok
    kept = b"".join(entry.get("data", b"") for entry in host.entries.values())
    assert len(kept) > 10_000
    assert [secret for _text, secret in PLANTED.values() if secret.encode() in kept] == []
    assert {"/etc/shadow", "/root/.ssh/id_ed25519"} <= set(host.left_out)
    for wanted in (b"NCCL_IB_TC=106", b"NCCL_IB_TC=41", b"NCCL_DEBUG=WARN", b"iommu=pt", b"quiet"):
        assert wanted in kept
    bundle = recorded(TreeHost(str(tree)), SPEC)
    with tarfile.open(fileobj=io.BytesIO(archive(bundle, "n1"))) as tar:
        whole = b"".join((tar.extractfile(member) or io.BytesIO()).read() for member in tar.getmembers() if member.isfile())
    assert [secret for _text, secret in PLANTED.values() if secret.encode() in whole] == []


# Where other people's variables are set, and what is left there. Each value that may not leave is hunter2-….
W = WORD % "v"
SET = {
    "/etc/systemd/system.conf.d/50-site.conf": (
        (f"[Manager]\nDefaultEnvironment=\"DB_URL={W} x\" NCCL_IB_TC=106 'SITE={W}' \\\n  OTHER={W} NCCL_DEBUG=WARN\n"
        f"ManagerEnvironment=A={W}\nSetCredential=db:{W}\n# DefaultEnvironment=OLD={W}\nDefaultLimitMEMLOCK=infinity\n"),
        ["DB_URL=(hidden)", "NCCL_IB_TC=106", "SITE=(hidden)", "OTHER=(hidden)", "DefaultLimitMEMLOCK=infinity"]),
    "/usr/lib/systemd/system.conf.d/10-image.conf": (f"[Manager]\nDefaultEnvironment=IMAGE={W}\n", ["IMAGE=(hidden)"]),
    "/etc/nccl.conf": (
        (f"NCCL_IB_TC=106\nSITE={W}\nsite={W}\nNCCL_SITE_TOKEN={W}\nNCCL_SITE={W}\n"
        f"# old: SITE={W}\n# SITE={W}\nexport DB={W}\n{W}\nNCCL_DEBUG=WARN {W}\n"),
        ["NCCL_IB_TC=106", "SITE=(hidden)", "NCCL_SITE_TOKEN=(hidden)", "NCCL_DEBUG=WARN"]),
    "/opt/site/nccl.conf": (f"NCCL_IB_TC=41\nDB={W}\n", ["NCCL_IB_TC=41", "DB=(hidden)"]),
    "/srv/jobs.env": (f"export DB={W}\nUCX_TLS=rc\n", ["DB=(hidden)", "UCX_TLS=rc"]),
    "/etc/profile.d/site.sh": (
        f'export NCCL_DEBUG=WARN SITE={W}\nexport NCCL_IB_TC=106; export DB={W}\nexport UCX_API_TOKEN={W}\nNCCL_NET="IB"\n',
        ["NCCL_DEBUG=WARN", "NCCL_IB_TC=106", 'NCCL_NET="IB"']),
    "/etc/security/pam_env.conf": (f"DB DEFAULT={W}\nNCCL_DEBUG DEFAULT=WARN\n", []),
    "/etc/environment": (f'NCCL_IB_TC=106\nhttps_proxy=http://u:{W}@p\nDB="{W}"\n', ["NCCL_IB_TC=106"]),
    "/etc/security/limits.d/site.conf": (f"{W} hard memlock 64\n* soft memlock unlimited\n@gpu - nofile 1\nroot - nofile 2\n",
                                         ["* soft memlock unlimited", "@gpu - nofile 1", "root - nofile 2", "(hidden) hard memlock 64"]),
    "/proc/net/unix": (f"Num Path\n1: 2 @/tmp/{W}\n2: 2 @/com/intel/lldpad\n", ["@/com/intel/lldpad"]),
    "/proc/77/environ": (f"DB={W}\0NCCL_DEBUG=WARN\0NCCL_SITE_SECRET={W}\0", ["NCCL_DEBUG=WARN"]),
    "/boot/grub/grub.cfg": (f"password_pbkdf2 root grub.pbkdf2.sha512.1.{W}\n linux /vmlinuz netroot=iscsi:u:{W}@10.0.0.1::3260 quiet\n",
                            ["password_pbkdf2 root", "quiet"]),
    "/etc/NetworkManager/system-connections/w.nmconnection": (f"[wifi-security]\npsk={W}\nwep-key0={W}\n[802-1x]\npassword={W}\n", []),
    "/etc/netplan/w.yaml": (f'access-points:\n  x:\n    auth:\n      password: "{W}"\n', []),
    "/etc/slurm/slurmdbd.conf": (f"StorageHost=db\nStoragePass={W}\n", ["StorageHost=db"]),
    "/etc/apt/auth.conf.d/site.conf": (f"machine m login u password {W}\n", []),
    "/etc/apt/apt.conf.d/proxy": (f'Acquire::http::Proxy "http://u:{W}@p:3128";\n', ["@p:3128"]),
}


@pytest.mark.parametrize("path", SET)
def test_other_peoples_values_stay_and_ours_leave(path: str) -> None:
    text, kept = SET[path]
    entry = {"path": path, "kind": "file", "text": (fit_to_leave(path, text.encode()) or b"").decode()}
    left = fit(entry)["text"]
    assert W not in left
    assert [part for part in kept if part not in left] == []
    assert fit({**entry, "text": left})["text"] == left, "what is fit already stays as it is"


def test_a_name_that_only_looks_like_ours_leaves_no_value() -> None:
    """The node has no table of NCCL's variables: what it sends is in the controller's memory alone."""
    for path in ("/etc/nccl.conf", "/proc/1/environ", f"/cmd/{recording_name(SHOW)}", f"/cmd/{recording_name((*LOGIN, *SHELLS[0][1]))}"):
        left = fit({"path": path, "kind": "file", "text": f"NCCL_SITE_DB={W}\nNCCL_IB_TC=106\nUCX_SITE={W}\n"})["text"]
        assert (W in left, "NCCL_SITE_DB=(hidden)" in left, "NCCL_IB_TC=106" in left) == (False, True, True)


def test_facts_and_the_overview_hold_no_foreign_line_of_nccl_conf(tmp_path: Path) -> None:
    tree = tmp_path / "node"
    shutil.copytree(NODES / "doca8", tree, symlinks=True)
    (tree / "etc/nccl.conf").write_text(f"NCCL_DEBUG=WARN\nSITE={W}\nNCCL_SITE_TOKEN={W}\n")
    (tree / "etc/profile.d").mkdir()
    (tree / "etc/profile.d/z.sh").write_text(f"export NCCL_DEBUG=WARN SITE={W}\nexport NCCL_IB_TC=1;x={W}\nexport UCX_API_KEY={W}\n")
    (tree / "cmd" / recording_name(SHOW)).write_text("LANG=C\n")
    host = TreeHost(str(tree))
    found = judged_alone(host, "n1", SPEC)
    assert W not in json.dumps([found, observe_nccl(host)])
    assert "SITE=(hidden)" in found["overview"]["NCCL"]


@pytest.mark.parametrize("text", [
    "x ghp_0123456789abcdefABCDEF0123", "AKIAIOSFODNN7EXAMPLE", "token sk-proj-0123456789abcdefghij", "nvapi-0123456789abcdefghij",
    "a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc", "psk=abcdef", "--password=abcdef", "PresharedKey = abcdef",
])
def test_forms_of_secrets(text: str) -> None:
    said = (fit_to_leave("/etc/x.conf", text.encode()) or b"").decode()
    assert "(hidden)" in said
    assert not any(part in said for part in ("0123456789", "IOSFODNN7", "eyJzdWIi", "abcdef"))


def test_what_is_no_secret_stays() -> None:
    for text in ("NCCL_IB_GID_INDEX=3\n", "0123456789abcdef" * 4 + "\n", "MT_0000000838\n", '{"key": 1, "ifname": "eth0"}'):
        assert fit_to_leave("/etc/x", text.encode()) == text.encode()
    assert fit_to_leave("/sys/bus/pci/devices/0000:1b:00.0/config", b"\xde\x10\xff") == b"\xde\x10\xff"


class Failing(TreeHost):
    """A tree whose command fails and says why."""

    def run(self, argv: Any, timeout: float = 30.0, stdin: str | None = None, limit: int = 0) -> Result:
        return Result(7, "half\n", "no such device\n")


def test_a_command_that_failed_fails_again(tmp_path: Path) -> None:
    host = RecordingHost(Failing(str(tmp_path)), fit_to_leave, fit_answer)
    argv = ("nvidia-smi", "-q")
    assert host.run(argv) == Result(7, "half\n", "no such device\n")
    for path, entry in host.entries.items():
        (tmp_path / path.lstrip("/")).parent.mkdir(exist_ok=True)
        (tmp_path / path.lstrip("/")).write_bytes(entry["data"])
    assert (tmp_path / "cmd" / ("nvidia-smi_-q" + FAILED)).is_file()
    assert TreeHost(str(tmp_path)).run(argv) == Result(7, "half\n", "no such device\n")
    assert len(recording_name(("x", *map(str, range(1000))))) <= 255


def test_what_is_too_much_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "ROOM", 10)
    (tmp_path / "a").write_text("12345")
    (tmp_path / "b").write_text("1234567")
    host = RecordingHost(TreeHost(str(tmp_path)), fit_to_leave, fit_answer)
    assert (host.read("/a"), host.read("/b")) == ("12345", "1234567")
    assert (list(host.entries), host.left_out) == (["/a"], ["/b"])


def test_links_are_kept_and_lead_to_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/x").symlink_to("/etc/y")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/y").write_text("here")
    host = RecordingHost(TreeHost(str(tmp_path)), fit_to_leave, fit_answer)
    assert host.read("/lib/x") == "here"
    assert {path: entry["kind"] for path, entry in host.entries.items()} == {"/lib": "link", "/usr/lib/x": "link", "/etc/y": "file"}


@pytest.mark.parametrize("entry", [
    {"path": "/../x", "kind": "file", "text": ""}, {"path": "x", "kind": "file", "text": ""}, {"path": "/a/./b", "kind": "file"},
    {"path": "/a", "kind": "device"}, {"path": "/a", "kind": "directory", "names": ["../b"]}, {"path": "/a//b", "kind": "file"},
    {"path": "/a", "kind": "file", "mode": 0o104755}, {"path": "/a", "kind": "file", "base64": "!"},
])  # fmt: skip
def test_the_gate_lets_no_way_out_of_the_tree_pass(entry: dict[str, Any]) -> None:
    said = {"changed": False, "bundle": {"left_out": [], "entries": [entry]}}
    assert passed("railwright.rdma.rdma_check", "bundle", said)["failed"]


def test_nothing_below_a_link_is_written() -> None:
    entries = [{"path": "/a", "kind": "link", "to": "/etc"}, {"path": "/a/b", "kind": "file", "text": "x"}]
    with pytest.raises(InputError, match="below a link"):
        archive({"entries": entries, "left_out": []}, "n1")
