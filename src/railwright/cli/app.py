# SPDX-License-Identifier: GPL-3.0-or-later
"""The typer application: the verbs in the order of the work, and the switches that all of them take."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from railwright import __version__
from railwright.cli import (
    ai_environment,
    apply,
    artifacts,
    bench,
    container_flags,
    drift,
    explain,
    facts,
    init,
    lab,
    lint,
    nccl,
    plan,
    remediate,
    report,
    rollback,
    switch_hints,
    upgrade,
    validate,
)
from railwright.cli.options import settings

HELP = """Provision, prove and keep RDMA GPU nodes: InfiniBand, RoCE v2 and Alibaba eRDMA.

\b
Start:    railwright init mycluster --fabric roce
Look:     railwright plan -i mycluster
Do:       railwright apply -i mycluster
Prove:    railwright validate -i mycluster; railwright bench -i mycluster
Keep:     railwright drift -i mycluster; railwright remediate -i mycluster
Move:     railwright upgrade -i mycluster --to release.yml
Try it:   railwright lab up

Exit codes: 0 ok, 1 a verdict or task failed, 2 drift, 3 a node unreachable, 64 bad usage or input.
"""


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"railwright {__version__}")
        raise typer.Exit


def set_debug(wanted: bool) -> None:
    settings.debug = settings.debug or wanted


Version = Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")]
DEBUG = "Show Ansible's own output, without its colours, and, after an error, the traceback."
Debug = Annotated[bool, typer.Option("--debug", callback=set_debug, help=DEBUG)]


def root(version: Version = False, debug: Debug = False) -> None:
    """Takes the switches that stand before the verb."""
    del version, debug  # their callbacks have done the work


def build() -> typer.Typer:
    app = typer.Typer(
        name="railwright",
        help=HELP,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    work = (init, lint, facts, plan, apply, validate, ai_environment, bench, drift, remediate, rollback, upgrade)
    for verb in (*work, report, artifacts, switch_hints, container_flags):
        name = verb.__name__.rpartition(".")[2].replace("_", "-")
        app.command(name, help=verb.HELP)(verb.command)
    app.add_typer(explain.build(), name="explain")
    app.add_typer(nccl.build(), name="nccl")
    app.add_typer(lab.build(), name="lab")
    return app


def command() -> Any:
    """The click command of the application, with --debug at every level: people add it at the end of the line."""
    top: Any = typer.main.get_command(build())
    debug = next(option for option in top.params if option.name == "debug")
    debug.expose_value = False  # its callback does the work; a verb need not take it
    _add(debug, top.commands)
    return top


def _add(option: Any, commands: dict[str, Any]) -> None:
    for child in commands.values():
        child.params.append(option)
        _add(option, getattr(child, "commands", {}))
