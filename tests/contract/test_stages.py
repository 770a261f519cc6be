# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of `make test` tells the truth: nothing passes that did not run, nothing is skipped in silence."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import cluster
import harness
import images
import repo
import results
import standins
import table
from railwright.lab import LabError

CASES = {
    "passed": "<testcase classname='a' name='one'/>",
    "failed": "<testcase classname='a' name='two'><failure message='no'/></testcase>",
    "skipped": "<testcase classname='a' name='three'><skipped message='no KVM here'/></testcase>",
}


def junit(directory: Path, *names: str) -> Path:
    """A JUnit file with these cases."""
    path = directory / "junit.xml"
    path.write_text(f"<testsuites><testsuite>{''.join(CASES[name] for name in names)}</testsuite></testsuites>", encoding="utf-8")
    return path


def counts(tally: results.Tally) -> tuple[int, int, int]:
    return tally.passed, tally.failed, tally.skipped


@pytest.mark.parametrize(
    ("cases", "status", "expected"),
    [
        (("passed", "passed"), 0, (2, 0, 0)),
        (("passed", "failed", "skipped"), 1, (1, 1, 1)),
        (("passed",), 2, (1, 1, 0)),  # it ended badly after its last test
        (("skipped",), 0, (0, 1, 1)),  # nothing but skips proves nothing
        ((), 5, (0, 1, 0)),
    ],
)
def test_judge(tmp_path: Path, cases: tuple[str, ...], status: int, expected: tuple[int, int, int]) -> None:
    assert counts(results.judge("step", status, junit(tmp_path, *cases))) == expected


def test_judge_without_a_file(tmp_path: Path) -> None:
    assert counts(results.judge("step", 0, tmp_path / "absent.xml")) == (0, 1, 0)
    (tmp_path / "cut.xml").write_text("<testsuites><testsuite>", encoding="utf-8")
    assert counts(results.judge("step", 0, tmp_path / "cut.xml")) == (0, 1, 0)


def test_judge_by_exit_status() -> None:
    assert counts(results.judge("tool", 0, None)) == (1, 0, 0)
    assert counts(results.judge("tool", 1, None)) == (0, 1, 0)


def test_skips_keep_their_reason(tmp_path: Path) -> None:
    assert results.from_junit(junit(tmp_path, "skipped")).skips == (("a::three", "no KVM here"),)


def test_unknown_stage_is_bad_usage() -> None:
    done = subprocess.run((sys.executable, "tools/stages", "unti"), cwd=repo.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert "unti" in done.stderr
    assert "contract" in done.stderr


@pytest.mark.parametrize("wanted", ["0/4", "5/4", "two/4", "2"])
def test_a_shard_that_is_none_is_bad_usage(wanted: str) -> None:
    argv = (sys.executable, "tools/stages", "scenarios", "--", "--shard", wanted)
    done = subprocess.run(argv, cwd=repo.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert f"--shard {wanted}: expected I/N" in done.stderr


def stages_main() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stages_main", repo.ROOT / "tools/stages/__main__.py")
    assert spec is not None
    assert spec.loader is not None
    stages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stages)
    return stages


def test_steps_together_are_all_run_and_print_in_one_piece(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stages = stages_main()
    script = "import sys, time\nfor part in range(3): print(sys.argv[1], part, flush=True); time.sleep(0.2)\nsys.exit(sys.argv[1] == 'two')"
    steps = tuple(table.Step(name, (sys.executable, "-c", script, name)) for name in ("one", "two", "three"))
    tally = stages.run_steps(table.Stage("both", steps, together=2), tmp_path, [])
    assert counts(tally) == (2, 1, 0)
    printed = capfd.readouterr().out
    for name in ("one", "two", "three"):
        assert f"{name} 0\n{name} 1\n{name} 2\n" in printed


MEET = """
import pathlib, sys, time
own, other = map(pathlib.Path, sys.argv[1:])
own.touch()
end = time.monotonic() + 60
while not other.exists() and time.monotonic() < end: time.sleep(0.05)
sys.exit(not other.exists())
"""


def test_neighbours_of_one_core_run_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other; the stage after them comes when both are done, and sees what both left."""
    stages = stages_main()
    monkeypatch.setattr(stages, "BUILD", tmp_path)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    alone = "import pathlib, sys; sys.exit(not all(pathlib.Path(name).exists() for name in sys.argv[1:]))"
    work = [
        table.Stage("one", (table.Step("meet", (sys.executable, "-c", MEET, one, two)),), one_core=True),
        table.Stage("two", (table.Step("meet", (sys.executable, "-c", MEET, two, one)),), one_core=True),
        table.Stage("three", (table.Step("last", (sys.executable, "-c", alone, one, two)),)),
    ]
    outcomes = stages.run_stages([(stage, []) for stage in work])
    assert [(outcome.name, *counts(outcome.tally)) for outcome in outcomes] == [("one", 1, 0, 0), ("two", 1, 0, 0), ("three", 1, 0, 0)]


def test_make_test_runs_every_stage_but_the_long_ones() -> None:
    recipe = next(line for line in repo.text("Makefile").splitlines() if "$(STAGES) " in line and " contract " in line)
    by_hand = ("editor", "hostile-long", "lab", "scenarios")
    assert recipe.split("$(STAGES)")[1].split() == [name for name in table.stages() if name not in by_hand]


def test_other_releases_of_ansible_core_are_lied_to() -> None:
    """In both stages a tenth of the lies; the container of Debian 13 gets the variable, and each file has tests that are chosen."""
    files = [f"tests/hostile/test_{name}.py" for name in ("found", "plays", "modules")]
    for name, own in (("core216", files[:2]), ("newest", files)):
        [step] = table.stages()[name].steps
        assert dict(step.env) == {"RAILWRIGHT_LIES": "0.1"}
        assert set(own) <= set(step.argv)
    assert '"--env=RAILWRIGHT_LIES"' in repo.text("tests/containers/newest.py")
    argv = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "core", *files)
    done = subprocess.run(argv, cwd=repo.ROOT, env={**os.environ, "RAILWRIGHT_LIES": "0.1"}, capture_output=True, text=True, check=True)
    chosen = [line for line in done.stdout.splitlines() if "::" in line]
    assert {line.partition("::")[0] for line in chosen} == set(files)
    assert len([line for line in chosen if "stays_alone" in line]) == 4


def test_every_scenario_is_in_one_stage_and_shards_lose_none() -> None:
    stages = table.stages()
    scenarios = sorted(path.parent.name for path in (repo.ROOT / "molecule").glob("*/molecule.yml"))
    steps = [step.name for name in ("containers", "fabric", "scenarios") for step in stages[name].steps]
    assert sorted(step for step in steps if not step.startswith("tests-")) == scenarios
    assert set(scenarios) >= table.QUICK
    main = stages_main()
    parts = [main.shard(stages["scenarios"], ["--shard", f"{part}/3", "-x"]) for part in (1, 2, 3)]
    assert sorted(step.name for stage, _extra in parts for step in stage.steps) == sorted(step.name for step in stages["scenarios"].steps)
    assert all(extra == ["-x"] and stage.steps for stage, extra in parts)


def test_images_are_those_that_the_scenarios_boot(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    built = []
    monkeypatch.setattr(harness, "build", lambda packages, suite: built.append((suite, packages)) or f"image{len(built)}")
    monkeypatch.setattr(standins, "directory", lambda: built.append("standins") or Path("/standins"))
    monkeypatch.setattr(images.image, "ensure", lambda _progress: built.append("lab"))
    assert images.main(["default", "erdma"]) == 0
    assert built[:4] == ["lab", *((suite, cluster.PACKAGES) for suite in ("bookworm", "trixie", "bullseye"))]
    assert built[4:6] == [("bookworm", (*cluster.PACKAGES, "python3-apt")), "standins"]
    assert "default node3 image4" in capsys.readouterr().out.splitlines()[2]

    def full(_progress: object) -> None:
        raise LabError("no room")

    monkeypatch.setattr(images.image, "ensure", full)
    assert (images.main(["default"]), capsys.readouterr().err) == (1, "no room\n")


def test_shards_of_the_long_scenarios_are_short() -> None:
    """Two at a time, within 20 minutes: at most three scenarios each, of which one takes long."""
    parts = 10  # as docs/developing.md says
    scenarios = table.stages()["scenarios"]
    assert set(table.SLOWEST) <= {step.name for step in (*scenarios.steps, *table.stages()["containers"].steps)}
    shards = [stages_main().shard(scenarios, ["--shard", f"{part}/{parts}"])[0].steps for part in range(1, parts + 1)]
    assert max(len(steps) for steps in shards) <= 3
    assert max(sum(step.name in table.SLOWEST for step in steps) for steps in shards) == 1
