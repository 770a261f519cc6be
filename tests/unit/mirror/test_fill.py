# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright artifacts --mirror`` against a real HTTP server that breaks off, changes its files, redirects and does not know Range."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, located
from railwright.artifact_rows import Row
from railwright.exitcodes import CommandError, ExitCode, InputError
from railwright.mirror.download import Limits, Refused
from railwright.mirror.fill import FAILED, FETCHED, KEPT, LEFT_OUT, MANIFEST, Outcome, fill, publish
from railwright.writing import own_file
from repo import ROOT
from vendor_server import Vendor, own_certificate

CONTENT = bytes(range(256)) * 12_000  # 3 MB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
QUICK = Limits(seconds=20, silence=5, tries=3, pause=0.01)


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    server = Vendor()
    server.files["/a/file.bin"] = CONTENT
    yield server
    server.close()


def row(vendor: Vendor, path: str = "a/file.bin", value: str | None = SHA256, pin: str = "sha256", kind: str = "archive") -> Row:
    return Row("it", "1", f"{vendor.url}/{path}", kind, pin if value else "operator", value, "here", path=f"vendor.example/{path}")


def filled(directory: Path, *rows: Row, limits: Limits = QUICK) -> list[Outcome]:
    return list(fill(directory, rows, limits))


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def test_a_file_is_put_where_nodes_look_and_not_fetched_twice(vendor: Vendor, tmp_path: Path) -> None:
    (first,), (second,) = filled(tmp_path, row(vendor)), filled(tmp_path, row(vendor))
    assert (first.state, first.path, first.sha256) == (FETCHED, "vendor.example/a/file.bin", SHA256)
    assert (second.state, second.text) == (KEPT, "2.93 MiB, sha256 as pinned")
    assert len(vendor.asked) == 1
    assert (tmp_path / "vendor.example/a/file.bin").read_bytes() == CONTENT
    assert files(tmp_path) == [MANIFEST, "vendor.example/a/file.bin"]
    assert subprocess.run(["sha256sum", "--check", "--strict", MANIFEST], cwd=tmp_path, check=False, capture_output=True).returncode == 0


def test_a_connection_that_breaks_is_continued_where_it_broke(vendor: Vendor, tmp_path: Path) -> None:
    vendor.breaks = [1_000_000, 500_000]
    (outcome,) = filled(tmp_path, row(vendor))
    assert outcome.state == FETCHED
    assert [asked for _path, asked in vendor.asked] == [None, "bytes=999999-", "bytes=1499998-"]
    assert files(tmp_path) == [MANIFEST, "vendor.example/a/file.bin"]


def test_what_is_left_of_one_run_the_next_one_continues(vendor: Vendor, tmp_path: Path) -> None:
    vendor.breaks = [900_000] + [0] * 10
    (outcome,) = filled(tmp_path, row(vendor))
    assert outcome.state == FAILED
    assert outcome.text.endswith("; 878.9 KiB are kept, and the next run goes on there")
    (part,) = files(tmp_path)
    assert re.fullmatch(r"vendor\.example/a/file\.bin\.[0-9a-f]{16}\.part", part)
    vendor.breaks, vendor.asked = [], []
    (outcome,) = filled(tmp_path, row(vendor))
    assert (outcome.state, vendor.asked) == (FETCHED, [("/a/file.bin", "bytes=899999-")])


def test_a_whole_part_costs_one_byte(vendor: Vendor, tmp_path: Path) -> None:
    """Killed between the last byte and the name."""
    vendor.breaks = [900_000] + [0] * 10
    filled(tmp_path, row(vendor))
    (part,) = (tmp_path / "vendor.example/a").iterdir()
    part.write_bytes(CONTENT)
    vendor.breaks, vendor.asked = [], []
    assert filled(tmp_path, row(vendor))[0].state == FETCHED
    assert vendor.asked == [("/a/file.bin", f"bytes={len(CONTENT) - 1}-")]


@pytest.mark.parametrize("value", [SHA256, None], ids=["pinned", "unpinned"])
def test_a_file_that_changed_meanwhile_is_never_mixed(vendor: Vendor, tmp_path: Path, value: str | None) -> None:
    vendor.files["/a/file.bin"] = CONTENT[::-1]
    vendor.breaks = [900_000] + [0] * 10
    filled(tmp_path, row(vendor, value=value))
    vendor.breaks, vendor.files["/a/file.bin"] = [], CONTENT
    (outcome,) = filled(tmp_path, row(vendor, value=value))
    assert (outcome.state, outcome.sha256) == (FETCHED, SHA256)


def test_without_validator_only_a_pinned_file_is_continued(vendor: Vendor, tmp_path: Path) -> None:
    for name, value, ranges in (("pinned", SHA256, ["bytes=899999-"]), ("unpinned", None, ["bytes=899999-", None])):
        vendor.tags, vendor.breaks = False, [900_000] + [0] * 10
        filled(tmp_path / name, row(vendor, value=value), limits=QUICK._replace(tries=1))
        vendor.breaks, vendor.asked = [], []
        assert filled(tmp_path / name, row(vendor, value=value))[0].sha256 == SHA256
        assert [asked for _path, asked in vendor.asked] == ranges


def test_a_wrong_part_of_a_pinned_file_is_taken_once_more_whole(vendor: Vendor, tmp_path: Path) -> None:
    vendor.tags, vendor.files["/a/file.bin"] = False, CONTENT[::-1]
    vendor.breaks = [900_000] + [0] * 10
    filled(tmp_path, row(vendor), limits=QUICK._replace(tries=1))
    vendor.breaks, vendor.files["/a/file.bin"] = [], CONTENT
    assert filled(tmp_path, row(vendor))[0].state == FETCHED


def test_a_server_without_range_is_asked_for_all_of_it(vendor: Vendor, tmp_path: Path) -> None:
    vendor.ranges, vendor.breaks = False, [1_000_000]
    (outcome,) = filled(tmp_path, row(vendor))
    assert (outcome.state, len(vendor.asked)) == (FETCHED, 2)


def test_a_wrong_sum_never_has_the_name(vendor: Vendor, tmp_path: Path) -> None:
    (outcome,) = filled(tmp_path, row(vendor, value="0" * 64))
    assert outcome.state == FAILED
    assert outcome.text == f"its sha256 was {SHA256} and not {'0' * 64}, which is pinned; it was removed"
    assert files(tmp_path) == []


def test_a_damaged_file_loses_its_name_and_is_fetched_again(vendor: Vendor, tmp_path: Path) -> None:
    for value in (SHA256, None):
        filled(tmp_path, row(vendor, value=value))
        (tmp_path / "vendor.example/a/file.bin").write_bytes(b"damaged")
        (outcome,) = filled(tmp_path, row(vendor, value=value))
        assert (outcome.state, outcome.sha256) == (FETCHED, SHA256)
        assert ", so it was fetched again; " in outcome.text
    (tmp_path / "vendor.example/a/file.bin").write_bytes(b"damaged")
    vendor.files.clear()
    assert filled(tmp_path, row(vendor))[0].state == FAILED
    assert files(tmp_path) == [MANIFEST]


def test_a_file_that_nobody_pinned_is_told_and_recorded(vendor: Vendor, tmp_path: Path) -> None:
    (outcome,) = filled(tmp_path, row(vendor, value=None))
    assert outcome.text == "2.93 MiB, no sum is known: recorded in SHA256SUMS; nodes refuse it until the inventory pins it"
    assert (tmp_path / MANIFEST).read_text() == f"{SHA256}  vendor.example/a/file.bin\n"
    assert filled(tmp_path, row(vendor, value=None))[0].state == KEPT


def test_a_key_is_held_to_its_fingerprint(vendor: Vendor, tmp_path: Path) -> None:
    vendor.files["/key.gpg"] = b"no key"
    (outcome,) = filled(tmp_path, row(vendor, "key.gpg", "A" * 40, "fingerprint", "key"))
    assert (outcome.state, outcome.text) == (FAILED, f"it held no key with the fingerprint {'A' * 40}, which is pinned; it was removed")
    vendor.files["/key.gpg"] = b"k" * (1 << 21)
    (outcome,) = filled(tmp_path, row(vendor, "key.gpg", "A" * 40, "fingerprint", "key"))
    assert outcome.text == "it has 2 MiB; allowed: up to 1 MiB"


@pytest.mark.parametrize("server", ["says", "does not say"])
def test_no_file_is_longer_than_allowed(vendor: Vendor, tmp_path: Path, server: str) -> None:
    vendor.lengths = server == "says"
    (outcome,) = filled(tmp_path, row(vendor), limits=QUICK._replace(size=1 << 20))
    assert outcome.state == FAILED
    assert "1 MiB" in outcome.text
    assert not (tmp_path / "vendor.example/a/file.bin").exists()


def test_an_unpinned_file_of_unknown_length_is_refused(vendor: Vendor, tmp_path: Path) -> None:
    vendor.lengths = False
    assert "does not say how long it is" in filled(tmp_path, row(vendor, value=None))[0].text


def test_a_server_that_drips_is_left(vendor: Vendor, tmp_path: Path) -> None:
    vendor.slow = 0.2
    begin = time.monotonic()
    (outcome,) = filled(tmp_path, row(vendor), limits=QUICK._replace(seconds=1))
    assert outcome.state == FAILED
    assert "it took longer than 1 s" in outcome.text
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_a_redirect_leads_to_http_and_https_only(vendor: Vendor, tmp_path: Path, target: str) -> None:
    vendor.redirects = {"/a/file.bin": target}
    (outcome,) = filled(tmp_path, row(vendor, value=None))
    assert outcome.state == FAILED
    assert "redirect" in outcome.text.lower()
    assert files(tmp_path) == []


def test_a_redirect_is_followed_and_an_endless_one_ended(vendor: Vendor, tmp_path: Path) -> None:
    vendor.redirects = {"/b": vendor.url + "/a/file.bin", "/c": vendor.url + "/c"}
    good, endless = filled(tmp_path, row(vendor, "b"), row(vendor, "c"))
    assert (good.state, endless.state) == (FETCHED, FAILED)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "a/%2e%2e/x", "a/%2F..%2Fx", "a//x", "a/", "", "a/%00", "a/b%5Cc", "a/" + "n" * 240,
                                  "a/%ff", "/".join("a" * 40)])
def test_no_address_leads_out_of_the_directory(vendor: Vendor, tmp_path: Path, path: str) -> None:
    (outcome,) = filled(tmp_path / "mirror", row(vendor, path))
    assert (outcome.state, vendor.asked, files(tmp_path)) == (FAILED, [], [])


def test_a_link_in_the_mirror_is_not_followed(vendor: Vendor, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/vendor.example").symlink_to(tmp_path / "elsewhere")
    (outcome,) = filled(tmp_path / "mirror", row(vendor))
    assert (outcome.state, outcome.text) == (FAILED, "vendor.example in the mirror is a link or no directory: move it away")
    assert files(tmp_path / "elsewhere") == []


@pytest.fixture
def planted(vendor: Vendor, tmp_path: Path) -> Path:
    """A name that a part has: a run was cut off, so that it is known, as it is to everybody who can read the mirror."""
    vendor.breaks = [900_000] + [0] * 10
    filled(tmp_path / "mirror", row(vendor))
    vendor.breaks, vendor.asked = [], []
    (part,) = (tmp_path / "mirror/vendor.example/a").iterdir()
    part.unlink()
    return part


@pytest.mark.parametrize("value", [SHA256, None], ids=["pinned", "unpinned"])
@pytest.mark.parametrize("how", ["link", "second name", "dangling link", "pipe", "writable by others"])
def test_nothing_is_written_through_what_was_planted_for_a_part(
    vendor: Vendor, tmp_path: Path, planted: Path, how: str, value: str | None
) -> None:
    victim = tmp_path / "victim"
    if how == "pipe":
        os.mkfifo(planted)
    elif how == "writable by others":
        planted.write_bytes(CONTENT[:100])
        planted.chmod(0o666)
    elif how == "dangling link":
        planted.symlink_to(victim)
    else:
        victim.write_text("precious\n" * 5)
        victim.chmod(0o600)
        planted.symlink_to(victim) if how == "link" else planted.hardlink_to(victim)
    (outcome,) = filled(tmp_path / "mirror", row(vendor, value=value))
    assert (outcome.state, vendor.asked) == (FETCHED, [("/a/file.bin", None)]), outcome.text
    if how in ("link", "second name"):
        assert (victim.read_text(), victim.stat().st_mode & 0o777, victim.stat().st_nlink) == ("precious\n" * 5, 0o600, 1)
    assert victim.exists() == (how in ("link", "second name"))
    assert files(tmp_path / "mirror") == [MANIFEST, "vendor.example/a/file.bin"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file of another user")
def test_a_part_of_another_user_is_made_anew(vendor: Vendor, tmp_path: Path, planted: Path) -> None:
    planted.write_bytes(CONTENT[:1000])
    os.chown(planted, 65534, 65534)
    assert filled(tmp_path / "mirror", row(vendor, value=None))[0].state == FETCHED
    assert vendor.asked == [("/a/file.bin", None)]
    state = (tmp_path / "mirror/vendor.example/a/file.bin").stat()
    assert (state.st_uid, state.st_mode & 0o777) == (0, 0o644)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file of another user")
def test_a_file_of_another_user_that_no_sum_is_known_of_is_fetched_again(vendor: Vendor, tmp_path: Path) -> None:
    file = tmp_path / "vendor.example/a/file.bin"
    for name, value, state in (("pinned", SHA256, KEPT), ("recorded", None, KEPT), ("planted", None, FETCHED)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(CONTENT)
        os.chown(file, 65534, 65534)
        if name == "planted":
            (tmp_path / MANIFEST).unlink()
        assert filled(tmp_path, row(vendor, value=value))[0].state == state, name
    assert file.stat().st_uid == 0


def test_a_pipe_in_place_of_a_file_is_named(vendor: Vendor, tmp_path: Path) -> None:
    (tmp_path / "vendor.example/a").mkdir(parents=True)
    os.mkfifo(tmp_path / "vendor.example/a/file.bin")
    assert filled(tmp_path, row(vendor))[0].text == "vendor.example/a/file.bin in the mirror is a link or no file: move it away"


def test_a_part_that_was_replaced_is_not_published(tmp_path: Path) -> None:
    with own_file(tmp_path / "x.part") as part:
        part.write(b"judged")
        (tmp_path / "x.part").unlink()
        (tmp_path / "x.part").write_bytes(b"another")
        with pytest.raises(Refused, match="was replaced by another user while it was written"):
            publish(part, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_repositories_and_files_of_nodes_are_left_out(vendor: Vendor, tmp_path: Path) -> None:
    own = Row("image", "-", "file:///srv/fw.bin", "archive", "sha256", SHA256, "inventory")
    assert [outcome.state for outcome in filled(tmp_path, row(vendor, "repo/", kind="repository"), own)] == [LEFT_OUT, LEFT_OUT]


def test_the_operators_own_address_is_told_where_it_lies(vendor: Vendor, tmp_path: Path) -> None:
    own = Row("aiacc_url", "-", f"{vendor.url}/a/file.bin?token=secret", "package", "sha256", SHA256, "inventory")
    (outcome,) = filled(tmp_path, own)
    path = f"{vendor.url.removeprefix('http://')}/a/file.bin"
    assert outcome.text.endswith(f"; the inventory's own address: set aiacc_url to MIRROR/{path}")
    assert "secret" not in outcome.text


def test_a_manifest_of_somebody_else_is_not_overwritten(vendor: Vendor, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(f"{SHA256}  x\nsomething\n")
    with pytest.raises(InputError, match="SHA256SUMS line 2 is no line of sha256sum's"):
        filled(tmp_path, row(vendor))


def test_two_runs_do_not_fill_one_mirror(vendor: Vendor, tmp_path: Path) -> None:
    first = fill(tmp_path, [row(vendor), row(vendor)], QUICK)
    next(first)
    with pytest.raises(CommandError, match="another railwright fills this mirror"):
        filled(tmp_path, row(vendor))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file system of its own")
def test_a_full_disk_is_said_and_what_came_is_kept(vendor: Vendor, tmp_path: Path) -> None:
    program = ("import sys, json; from railwright.mirror.fill import fill; from railwright.artifact_rows import Row; "
               "print(json.dumps([o._asdict() for o in fill(__import__('pathlib').Path(sys.argv[1]), [Row(**json.loads(sys.argv[2]))])]))")
    told = json.dumps({key: value for key, value in row(vendor)._asdict().items() if value is not None})
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && "$2" -c "$3" "$1" "$4"; find "$1" -type f'
    said = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, program, told],
                          capture_output=True, text=True, check=True)
    first, *left = said.stdout.splitlines()
    assert json.loads(first)[0]["text"].startswith("No space left on device: vendor.example/a/file.bin; ")
    assert [name.endswith(".part") for name in left] == [True]


def site(directory: Path, **values: object) -> Path:
    (directory / "group_vars/all").mkdir(parents=True)
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": {"rdma": {"hosts": {"n1": {}}}}}}))
    (directory / "group_vars/all/site.yml").write_text(yaml.safe_dump({"rdma_fabric": "roce", "rdma_mtu": 9000, **values}))
    return directory


def verb(*argv: str, **environment: str) -> subprocess.Popen[str]:
    path = f"{ROOT}/src:{ROOT}/.dev"
    bare = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return subprocess.Popen([sys.executable, "-m", "railwright", "artifacts", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={**bare, "PYTHONPATH": path, **environment})


def test_killed_in_the_middle_and_run_again(vendor: Vendor, tmp_path: Path) -> None:
    image = {"url": f"{vendor.url}/a/file.bin", "sha256": SHA256}
    inventory = site(tmp_path / "site", rdma_stack="inbox", nccl_tests_archive="/srv/nccl-tests.tar.gz",
                     nic_firmware_images={"MT_0000000838": image}, nic_firmware_versions={"MT_0000000838": "28.47.1080"})
    argv = ("-i", str(inventory), "--mirror", str(tmp_path / "mirror"))
    vendor.slow = 0.1
    first = verb(*argv)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(path.stat().st_size > 300_000 for path in tmp_path.rglob("*.part")):
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    (part,) = tmp_path.rglob("*.part")
    assert [path.name for path in part.parent.iterdir()] == [part.name]
    size, vendor.slow, vendor.asked = part.stat().st_size, 0.0, []
    assert 300_000 < size < len(CONTENT)
    second = verb(*argv)
    out, err = second.communicate(timeout=60)
    assert second.returncode == ExitCode.OK, err
    assert vendor.asked == [("/a/file.bin", f"bytes={size - 1}-")]
    assert out.startswith("fetched nic_firmware_images.MT_0000000838: 2.93 MiB, sha256 as pinned")
    assert err.endswith("1 fetched, 0 kept, 0 left out, 0 failed\n")
    vendor.files.clear()
    (next((tmp_path / "mirror").rglob("file.bin"))).unlink()
    third = verb(*argv)
    out, err = third.communicate(timeout=60)
    assert third.returncode == ExitCode.FAILED
    assert out.startswith("failed nic_firmware_images.MT_0000000838: 127.0.0.1:")
    assert "answered 404 Not Found" in out


def test_https_goes_through_the_proxy_of_the_environment(tmp_path: Path) -> None:
    artifact = find_artifact("nccl-tests")
    assert artifact is not None
    url = located(artifact)
    vendor = Vendor(own_certificate(tmp_path, "github.com"))
    vendor.files[url.removeprefix("https://")] = CONTENT
    inventory = site(tmp_path / "site", rdma_stack="inbox", rdma_artifact_pins={"nccl-tests": SHA256},
                     rdma_artifact_mirror="http://mirror.example.com/rw")
    run = verb("-i", str(inventory), "--mirror", str(tmp_path / "mirror"), "--format", "json", https_proxy=vendor.url,
               SSL_CERT_FILE=str(tmp_path / "host.pem"))
    out, err = run.communicate(timeout=60)
    vendor.close()
    assert run.returncode == ExitCode.OK, out + err
    (outcome,) = json.loads(out)
    assert (outcome["state"], outcome["path"], outcome["sha256"]) == (FETCHED, url.removeprefix("https://"), SHA256)
    assert (tmp_path / "mirror" / outcome["path"]).read_bytes() == CONTENT
    assert vendor.asked == [(url.removeprefix("https://"), None)]


def test_a_mirror_needs_an_inventory(tmp_path: Path) -> None:
    run = verb("--mirror", str(tmp_path / "mirror"))
    assert "--mirror fetches what an inventory's hosts need: give -i INVENTORY too" in run.communicate(timeout=60)[1]
    assert run.returncode == ExitCode.USAGE
