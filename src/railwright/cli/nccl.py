# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright nccl``: what a variable means, what is wrong with settings, what a log proves. No node is touched."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli import console
from railwright.cli.completing import of_variable
from railwright.cli.options import Format, OptionalInventory, OutputFormat, option
from railwright.exitcodes import ExitCode, InputError
from railwright.inventories import Given
from railwright.reading import file_name, read_bounded

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
    from railwright.nccl.check import NcclFinding, Source
    from railwright.nccl.settings import Grammar

LIMIT = 64 * 1024 * 1024  # bytes of a file with settings
NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # control characters that no editor writes

EXPLAIN_HELP = """Say what a variable of NCCL means, its type, default and values, and since when it exists.

\b
Example:
  railwright nccl explain NCCL_IB_TC
"""
LINT_HELP = """Check NCCL settings in files, in the environment (--env), or in an inventory (-i).

nccl.conf and .nccl.conf have a grammar of their own; any other file is read as a shell would: export lines, .env, docker and Slurm \
scripts, mpirun -x, YAML; - is standard input. Of nccl-tests' command lines there, sizes that it refuses (-b 1B) and -c 0 are findings \
too. With -i beside files, they are compared with the inventory's QoS profile (NCCL_IB_TC) and \
release of NCCL, and device prefixes are named. A variable newer than the table of railwright is a warning. Ends 1 when there is an error.

\b
Examples:
  railwright nccl lint /etc/nccl.conf train.sh
  railwright nccl lint --env
  railwright nccl lint -i mycluster train.sh
"""
LOG_HELP = """Say what a job died of and which network carried its data, by its log (NCCL_DEBUG=INFO, nccl-tests' output, or both).

Lists each error of NCCL, torch, the kernel and the launcher once, with node, rank and the next command: which is a cause, which follows \
from one. Says which network carried the data between nodes, who chose it, and whether every rank is in the log. All FILEs are of one \
job ("-": standard input). Ends 1 for a cause, for sockets, and for wrong values of nccl-tests; 4 for a log without its end, and for a \
network, a rank or a line of which nothing is known. Output of nccl-tests without NCCL's lines is judged by its table alone.

\b
Examples:
  railwright nccl log train.log
  railwright nccl log --gdr nccl.node1.*.log nccl.node2.*.log
  railwright nccl log all_reduce.log --format json
"""

Variable = Annotated[str, typer.Argument(metavar="VARIABLE", help="Such as NCCL_IB_TC.", show_default=False, autocompletion=of_variable)]
Files = Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="Files, or - for standard input.", show_default=False)]
Logs = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Logs of one job, or - for standard input.", show_default=False)]
Gdr = Annotated[bool, typer.Option("--gdr", help="Data that went through host memory, without GPUDirect RDMA, is a failure.")]
Environment = Annotated[bool, typer.Option("--env", help="Check the variables of this process.")]
GrammarOption = Annotated[str | None, option("--grammar", metavar="conf|shell", help="How to read the files, whatever their names.")]


def explain(variable: Variable, form: OutputFormat = Format.TEXT) -> None:
    from railwright.nccl.explain import explanation

    found = explanation(variable)
    console.answer(form, found, lambda: console.fields(found))
    raise typer.Exit(ExitCode.OK if found["known"] else ExitCode.FAILED)


def lint(
    files: Files = None, inventory: OptionalInventory = None, env: Environment = False, grammar: GrammarOption = None,
    form: OutputFormat = Format.TEXT,
) -> None:
    if not files and not env and inventory is None:
        raise InputError("nothing to check: give files, --env, or -i INVENTORY")
    from railwright.nccl.check import check_prefixes, check_source, check_together

    sources = _sources(files or [], _grammar(grammar), env)
    qos, release, findings = _of_inventory(inventory, with_own=not sources) if inventory is not None else (None, None, [])
    for source in sources:
        findings += check_source(source, qos, release)
        findings += check_prefixes(source) if inventory is not None else []
    findings += check_together(sources)
    order = {source.file: position for position, source in enumerate(sources)}
    findings.sort(key=lambda item: (order.get(item.file, -1), item.file, item.line))
    if form is Format.JSON:
        console.print_json([item._asdict() for item in findings])
    else:
        for item in findings:
            console.say(str(item))
        console.note("no findings" if not findings else console.count(len(findings), "finding"))
    raise typer.Exit(ExitCode.FAILED if any(item.severity == "error" for item in findings) else ExitCode.OK)


def log(files: Logs, gdr: Gdr = False, form: OutputFormat = Format.TEXT) -> None:
    from railwright.cli.verdicts import show_verdicts
    from railwright.nccl.log import exit_code, judge_files
    from railwright.nccl.log_files import lines_of_files

    found = judge_files(lines_of_files(files), gdr=gdr)
    if form is Format.JSON:
        console.print_json(found)
    else:
        if found["rows"] or found["failures"]:
            _show_run(found)
        for line in found["failures"]:
            console.say(console.styled(line, "fail"))
        for way, many in found["transport"]["connections"].items():
            console.say(f"{console.count(many, 'connection')} via {way}")
        _show_errors(found)
        show_verdicts(found["verdicts"], passes=True)
    raise typer.Exit(exit_code(found))


def _show_errors(found: dict[str, Any]) -> None:
    """Each distinct error in a line, earliest first, then what it means and the next step."""
    for item in found["errors"]:
        who = [item["node"] or "", "" if item["rank"] is None else f"rank {item['rank']}", item["hca"] or ""]
        peer = f"peer {item['peer']}{'' if item['peer_node'] is None else ' (' + item['peer_node'] + ')'}" if item["peer"] else ""
        where = " ".join(part for part in (item["time"] or "", *who, peer) if part)
        times = "" if item["count"] == 1 else f" ({item['count']} times)"
        console.say(f"{item['kind']:<11} {where}{': ' if where else ''}{item['text']}{times}")
        if item["kind"] != "benign":
            console.say(f"{'':<11} {item['means']}{'' if item['next'] is None else '; next: ' + item['next']}")
    if found["errors_left_out"]:
        console.say(f"{found['errors_left_out']} more lines with other errors")


def _show_run(found: dict[str, Any]) -> None:
    cells = [(row["size"], row["type"], row["redop"] or "-", *_half(row["out_of_place"]), *_half(row["in_place"])) for row in found["rows"]]
    if not cells:
        console.say("no row of a table of nccl-tests in it")
        return
    console.table(("size", "type", "redop", "time us", "busbw GB/s", "wrong", "in place us", "busbw GB/s", "wrong"), cells)
    console.say(f"average busbw {_shown(found['avg_busbw'])} GB/s, out of bounds {_shown(found['out_of_bounds'])}, "
                f"{'complete' if found['complete'] else 'NOT complete'}")


def _half(half: dict[str, object] | None) -> tuple[str, str, str]:
    if half is None:
        return "-", "-", "-"
    return _shown(half["time_us"]), _shown(half["busbw"]), "unchecked" if half["wrong"] is None else _shown(half["wrong"])


def _shown(value: object) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _grammar(name: str | None) -> Grammar | None:
    from railwright.nccl.settings import Grammar

    if name is not None and name not in tuple(Grammar):
        raise InputError(f"--grammar {name}: no such grammar; allowed: {', '.join(Grammar)}")
    return None if name is None else Grammar(name)


def _sources(files: list[Path], grammar: Grammar | None, env: bool) -> list[Source]:
    from railwright.nccl.check import Source
    from railwright.nccl.settings import Grammar, Setting, grammar_of, settings_of

    found = []
    if env:
        own = tuple(Setting(number, name, os.environ[name]) for number, name in enumerate(sorted(os.environ), 1) if "CCL_" in name)
        found.append(Source("environment", Grammar.SHELL, own))
    for file in files:
        kind = grammar or grammar_of(str(file))
        found.append(Source(file_name(file), kind, tuple(settings_of(_text(file), kind))))
    return found


def _text(file: Path) -> str:
    """A file with settings. What is no text has none, and to say "no findings" of it would be a lie."""
    data = _bytes(file)
    text = data.decode("utf-8", "replace")
    if NOT_TEXT.search(text) or text.count("\ufffd") * 10 > len(text):
        raise InputError(f"{file_name(file)}: is no text; allowed: a file with NCCL settings, as UTF-8")
    return text


def _bytes(file: Path) -> bytes:
    return read_bounded(file, file_name(file), LIMIT, f"is larger than {LIMIT // 1048576} MiB")


def _of_inventory(inventory: Given, *, with_own: bool) -> tuple[QosProfile | None, str | None, list[NcclFinding]]:
    """Return the site's QoS profile, its release of NCCL, and (``with_own``) the findings about the inventory's own NCCL settings."""
    from railwright.cli.session import opened

    read = opened(inventory, None, Format.TEXT)
    from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import site_profile
    from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import wanted_nccl
    from railwright.lint import judge_with_specs
    from railwright.nccl.check import NcclFinding

    judged, specs = judge_with_specs(read)
    profiles = {site_profile(spec["qos_profile"], spec["qos_custom"]) for spec in specs.values()}
    own = [item for item in judged if item.key.startswith(("nccl_", "rdma_nccl_", "rdma_qos_"))] if with_own else []
    findings = [
        NcclFinding(item.file, item.line or 1, item.key.rpartition(".")[2], item.severity, item.message, item.allowed) for item in own]
    releases = {wanted_nccl(spec) for spec in specs.values()}
    return (profiles.pop() if len(profiles) == 1 else None), (releases.pop() if len(releases) == 1 else None), findings


ABOUT = "NCCL: explain variables, check settings, judge logs."
VERBS = {"explain": (explain, EXPLAIN_HELP), "lint": (lint, LINT_HELP), "log": (log, LOG_HELP),
         "parse": (log, "The earlier name of `nccl log`.")}
