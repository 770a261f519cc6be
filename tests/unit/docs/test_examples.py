# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/scheduling.md and the files that it ships: systemd takes them, every command in them exists, and exit codes are what they say.

That the timer fires and the services work: tests/containers/test_schedules.py.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from ansible.cli.pull import PullCLI
from typer.core import TyperGroup

import repo
from railwright.cli.main import build
from railwright.exitcodes import ExitCode

PLACE = repo.ROOT / "docs" / "examples" / "scheduling"
PAGE = repo.text("docs/scheduling.md")
FILES = sorted(path for path in PLACE.iterdir() if path.is_file())
NAMES = ["docs/scheduling.md", *(str(path.relative_to(repo.ROOT)) for path in FILES)]
UNITS = [path for path in FILES if path.suffix in (".service", ".timer")]
INSTALLED = "/opt/railwright/bin"
BIN = Path(sys.executable).parent


def unit(name: str) -> dict[str, str]:
    """Its settings; none of ours stands in two sections. A backslash continues a line."""
    text = (PLACE / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def code_of(name: str) -> str:
    """What is typed or run: all of a file, and of a page what is set as code."""
    text = repo.text(name)
    if not name.endswith(".md"):
        return text
    return "\n".join(re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) + re.findall(r"`(railwright [a-z][^`\n]*)`", text))


def commands(name: str) -> list[list[str]]:
    """The argv of every `railwright VERB` that ends there or goes on with an option, without what a shell adds."""
    lines = [line for line in code_of(name).replace("\\\n", " ").splitlines() if not line.lstrip().startswith("# ")]
    found = [re.search(r"(?:^|[\s/])railwright ([a-z-]+(?: [a-z]+)?(?: -[^|;&}>]*)?)(?=$|[|;&}>])", line) for line in lines]
    return [shlex.split(re.sub(r"\s\d?$", "", match[1])) for match in found if match]


def test_the_page_names_every_file_and_every_file_is_there() -> None:
    assert set(re.findall(r"\]\(examples/scheduling/([^)]+)\)", PAGE)) == {path.name for path in FILES}


def test_systemd_takes_every_unit(tmp_path: Path) -> None:
    """With the real programs of this environment in the place of those below /opt."""
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is missing; tools/need unit installs it")
    for path in UNITS:
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8").replace(INSTALLED, str(BIN)), encoding="utf-8")
    argv = ["systemd-analyze", "--man=no", "verify", *(str(tmp_path / path.name) for path in UNITS)]  # a bare machine has no manual pages
    done = subprocess.run(argv, capture_output=True, text=True, check=False,
                          env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin", "SYSTEMD_LOG_COLOR": "0"})
    said = [line for line in done.stderr.splitlines() if any(path.name.split("@")[0] in line for path in UNITS)]
    assert (done.returncode, said) == (0, []), done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_command_of_ours_parses(name: str) -> None:
    group = typer.main.get_command(build())
    assert isinstance(group, TyperGroup)
    for verb, *rest in commands(name):
        found = group.commands[verb]
        if isinstance(found, TyperGroup):
            found = found.commands[rest.pop(0)]
        found.make_context(verb, rest, resilient_parsing=True)


def test_the_commands_are_found() -> None:
    """Or the test above would hold whatever the files say."""
    found = {Path(name).name: [argv[:3] for argv in commands(name)] for name in NAMES}
    assert {name: argvs for name, argvs in found.items() if argvs and name != "scheduling.md"} == {
        "railwright-drift.service": [["drift", "-i", "site"]], "railwright-agent-drain.service": [["agent", "drain", "-i"]],
        "railwright-drift.cron": [["drift", "-i", "site"]],
        "gitlab-ci.yml": [["drift", "-i", "."]], "github-workflow.yml": [["drift", "-i", "."]]}
    assert ["lint", "-i", "."] in found["scheduling.md"]


def test_ansible_pull_knows_its_options() -> None:
    program, *options = shlex.split(unit("railwright-pull.service")["ExecStart"].replace("%S", "/var/lib"))
    assert program == f"{INSTALLED}/ansible-pull"
    cli = PullCLI(["ansible-pull", *options])
    cli.init_parser()
    parsed = cli.parser.parse_args(options)
    assert parsed.args == ["pull.yml"]
    assert parsed.inventory == ["/var/lib/railwright-pull/site/hosts.yml"]
    assert parsed.dest == "/var/lib/railwright-pull/site"


@pytest.mark.parametrize("name", ["pull.yml", "pull_remediate.yml"])
def test_every_playbook_that_is_imported_exists(name: str) -> None:
    imported = [play["ansible.builtin.import_playbook"] for play in yaml.safe_load((PLACE / name).read_text(encoding="utf-8")) if
                "ansible.builtin.import_playbook" in play]
    assert imported
    for playbook in imported:
        ours = playbook.removeprefix("railwright.rdma.")
        assert (PLACE / playbook).is_file() if ours == playbook else (repo.ROOT / "playbooks" / f"{ours}.yml").is_file(), playbook


def test_a_node_that_fixes_itself_has_no_consent() -> None:
    first = yaml.safe_load((PLACE / "pull_remediate.yml").read_text(encoding="utf-8"))[0]
    assert first["vars"] == {"rdma_consent": []}


def test_drift_is_a_finding_and_no_failure() -> None:
    assert unit("railwright-drift.service")["SuccessExitStatus"] == str(int(ExitCode.DRIFT))
    gitlab = yaml.safe_load((PLACE / "gitlab-ci.yml").read_text(encoding="utf-8"))["drift"]
    assert gitlab["allow_failure"] == {"exit_codes": [int(ExitCode.DRIFT)]}


def test_a_run_ends_before_the_next_one() -> None:
    assert unit("railwright-drift.timer")["OnCalendar"] == "hourly"
    assert unit("railwright-drift.service")["TimeoutStartSec"] == "50min"


def stand_in(tmp_path: Path, code: ExitCode) -> Path:
    """A railwright that only ends as it is told: the shell around it is what is tried."""
    program = tmp_path / "railwright"
    program.write_text(f"#!/bin/sh\necho said >&2\nexit {int(code)}\n", encoding="ascii")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("code", "said"), [(ExitCode.OK, ""), (ExitCode.DRIFT, ""), (ExitCode.UNREACHABLE, "said\n")])
def test_cron_mails_only_what_failed(tmp_path: Path, code: ExitCode, said: str) -> None:
    line = (PLACE / "railwright-drift.cron").read_text(encoding="utf-8").splitlines()[-1]
    command = line.split(maxsplit=6)[6].replace("/srv/railwright", str(tmp_path))
    command = command.replace(f"{INSTALLED}/railwright", str(stand_in(tmp_path, code)))
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (said, "")


@pytest.mark.parametrize(("code", "status"), [(ExitCode.OK, 0), (ExitCode.DRIFT, 0), (ExitCode.FAILED, 1), (ExitCode.UNREACHABLE, 3)])
def test_github_warns_of_drift_and_fails_for_the_rest(tmp_path: Path, code: ExitCode, status: int) -> None:
    steps = yaml.safe_load((PLACE / "github-workflow.yml").read_text(encoding="utf-8"))["jobs"]["drift"]["steps"]
    script = next(step["run"] for step in steps if "run" in step)
    stand_in(tmp_path, code)
    # As the runner starts it.
    done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], capture_output=True, text=True, check=False,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == status
    assert ("::warning::" in done.stdout) == (code is ExitCode.DRIFT)
