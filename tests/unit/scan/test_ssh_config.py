# SPDX-License-Identifier: GPL-3.0-or-later
"""What ssh's configuration says of a host, by a real ``ssh -G``: which hosts share an answer, what is honoured, tokens."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.scan import ssh_config
from railwright.scan.ssh_config import Settings, SshConfig, Unreadable, expanded, file_argument, matched

Write = Callable[[str], list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def arguments(text: str) -> list[str]:
        ssh_config.configuration_text.cache_clear()
        (tmp_path / "config").write_text(text, encoding="utf-8")
        return ["-F", str(tmp_path / "config")]

    return arguments


class Counting(SshConfig):
    """Counts the calls of ssh."""

    calls = 0

    def _asked(self, arguments: tuple[str, ...], host: str) -> dict[str, tuple[str, ...]]:
        self.calls += 1
        return super()._asked(arguments, host)


def test_hosts_of_one_pattern_share_one_answer(write: Write) -> None:
    config, arguments = Counting(), write("Host gpu*\n  User ops\n  Port 2222\nHost *\n  ServerAliveInterval 5\n")
    found = [config.resolve(arguments, name) for name in ("gpu1", "gpu2", "login1", "gpu3")]
    assert config.calls == 2
    assert found[0].shared is found[1].shared is found[3].shared
    assert [item.hostname for item in found] == ["gpu1", "gpu2", "login1", "gpu3"]
    assert (found[0].shared["user"], found[0].shared["port"]) == (("ops",), ("2222",))
    assert found[2].shared["port"] == ("22",)


@pytest.mark.parametrize("text", ["Match host gpu1\n  User one\n", "CanonicalizeHostname always\nCanonicalDomains example.org\n"])
def test_what_may_tell_hosts_apart_is_asked_for_each(write: Write, text: str) -> None:
    config, arguments = Counting(), write(text)
    names = ("gpu1", "gpu2")
    users = [config.resolve(arguments, name).shared["user"] for name in names]
    assert config.calls == 2
    assert (users[0] == ("one",)) is text.startswith("Match")


def test_a_name_that_the_configuration_makes_is_asked_for_each(write: Write) -> None:
    config, arguments = Counting(), write("Host gpu*\n  HostName %h.cluster.example\n")
    assert [config.resolve(arguments, name).hostname for name in ("gpu1", "gpu2")] == ["gpu1.cluster.example", "gpu2.cluster.example"]


def test_included_files_count(write: Write, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Host gpu1\n  User one\n", encoding="utf-8")
    config, arguments = SshConfig(), write(f"Include {tmp_path}/mor*\n")
    one, two = (config.resolve(arguments, name).shared for name in ("gpu1", "gpu2"))
    assert one["user"] == ("one",)
    assert two is not one


def test_the_file_goes_on_to_jump_hosts(write: Write) -> None:
    arguments = write("")
    assert SshConfig().resolve(arguments, "gpu1").file == arguments[1]
    assert SshConfig().resolve(["-F", "none"], "gpu1").file == "none"
    assert (file_argument(["-F/x"]), file_argument(["-o", "User=a"]), file_argument(["-F"])) == ("/x", None, None)


@pytest.mark.parametrize(("line", "foreign"), [
    ("KnownHostsCommand /bin/true", ["knownhostscommand"]), ("RequestTTY yes", ["requesttty"]), ("RevokedHostKeys /x", ["revokedhostkeys"]),
    ("PKCS11Provider /x.so", ["pkcs11provider"]), ("SetEnv A=b", ["setenv"]), ("BindInterface lo", ["bindinterface"]),
    ("ProxyJump a", []), ("ForwardAgent yes", []), ("SendEnv LANG", []), ("Ciphers aes256-ctr", []),
    ("VerifyHostKeyDNS yes", ["verifyhostkeydns"]),
])  # fmt: skip
def test_what_is_not_honoured_is_named(write: Write, line: str, foreign: list[str]) -> None:
    config = SshConfig()
    assert config.unhonoured(config.resolve(write(f"{line}\n"), "gpu1").shared) == foreign


def test_what_ssh_refuses_is_said_in_its_words(write: Write) -> None:
    with pytest.raises(Unreadable, match="nonsense"):
        SshConfig().resolve(write("Nonsense yes\n"), "gpu1")
    with pytest.raises(Unreadable, match="no-such-ssh"):
        SshConfig("no-such-ssh").resolve(["-F", "none"], "gpu1")


@given(st.lists(st.text("ag1*?!.", min_size=1, max_size=5), min_size=1, max_size=3), st.text("ag1.", min_size=1, max_size=4))
def test_patterns_match_as_ssh_has_them(patterns: list[str], host: str) -> None:
    """By the letter: * any letters, ? one, ! none of these."""

    def fits(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return fits(pattern[1:], name) or (bool(name) and fits(pattern, name[1:]))
        return bool(name) and pattern[0] in ("?", name[0]) and fits(pattern[1:], name[1:])

    wanted = any(fits(word, host) for word in patterns if word[0] != "!")
    wanted = wanted and not any(fits(word[1:], host) for word in patterns if word[0] == "!")
    assert matched(" ".join(patterns), host) is wanted


def test_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ops")
    monkeypatch.setenv("KEYS", "/keys")
    tokens = {"h": "gpu1", "%": "%"}
    assert expanded("~/.ssh/%h_100%%", tokens) == "/home/ops/.ssh/gpu1_100%"
    assert expanded("${KEYS}/id", tokens) == "/keys/id"
    with pytest.raises(Unreadable, match="%C in x%C"):
        expanded("x%C", tokens)


def test_default_is_of_no_file() -> None:
    default: Settings = SshConfig().default()
    assert default["port"] == ("22",)
    assert SshConfig().unhonoured(default) == []
