# SPDX-License-Identifier: GPL-3.0-or-later
"""How a verb is shown by --help, as plain text: typer's boxes break words and examples. The reference and the man page use its rows."""

from typing import Any

from typer.core import TyperCommand


def row(param: Any) -> tuple[tuple[str, ...], str, str]:
    """Names (the long ones first; of an argument none), value, meaning: texts of our own, for typer's differ between its releases."""
    argument = param.param_type_name == "argument"
    names = () if argument else tuple(sorted((*param.opts, *param.secondary_opts), key=lambda name: not name.startswith("--")))
    text, default = getattr(param, "help", None) or "", param.default
    if param.required and not argument:
        text += " Required."
    elif default not in (None, False, "", ()) and not callable(default):
        text += f" Default: {'yes' if default is True else getattr(default, 'value', default)}."
    return names, param.metavar or "", text


class Verb(TyperCommand):
    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(str(param.metavar) for param in self.params if param.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        found: dict[str, list[tuple[str, str]]] = {}
        for param in sorted(self.get_params(ctx), key=lambda param: param.param_type_name != "argument"):
            names, value, text = row(param)
            title = getattr(param, "rich_help_panel", None) or ("Options" if names else "Arguments")
            found.setdefault(title, []).append((f"{', '.join(sorted(names, key=len))} {value}".strip(), text))
        for title, rows in found.items():
            with formatter.section(title):
                formatter.write_dl(rows)
