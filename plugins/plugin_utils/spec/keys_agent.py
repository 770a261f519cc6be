# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of the agent, of what drains by its word, and of nodes that are out of service; rows of ``schema.py``."""

from .key import Key

DIRECTORY = r"^(/(?!\.\.?(/|$))[A-Za-z0-9._-]+)+$"  # no . or .. on the way

AGENT = (
    Key("agent_mode", "str", "off",
        "off: no agent. observe: each node looks each minute, remembers 30 days and says what it finds; nobody is drained. drain: "
        "`railwright watch --drain` may drain such a node, and its prolog refuses jobs. Take the three steps one by one.", "choice",
        choices=("off", "observe", "drain")),
    Key("agent_flaps", "int", 3, "So many times in 12 hours a link may not go down: then the node should take no jobs.",
        "gpud (3 in 12 h); Azure (5 in 24 h)", minimum=1, maximum=100),
    Key("agent_textfile_directory", "str", None,
        "The directory of node_exporter's textfile collector, where the agent writes its metrics. Unset: nowhere.",
        "node_exporter (--collector.textfile.directory)", pattern=DIRECTORY, form="an absolute path of plain characters",
        example="/var/lib/prometheus/node-exporter"),
    Key("agent_hook_without_agent", "str", "ok", "What a prolog does while the agent says nothing: ok, or refuse the job.",
        "choice: a monitor that is down must not stop a cluster", choices=("ok", "refuse")),
)

SERVICE = (
    Key("rdma_out_of_service", "dict", {},
        "A node that nobody counts on: {reason, ticket, until}. Its verdicts change no exit code, `watch --drain` keeps it drained with "
        "the reason, and after the day `until` (YYYY-MM-DD) every run warns.", "choice",
        example={"reason": "GPU 3 returned", "ticket": "RMA-4711", "until": "2026-12-31"}),
    Key("rdma_drain_most", "int", 4, "So many nodes at most are drained by `watch --drain` at any time.", "choice", minimum=0,
        maximum=100000),
    Key("rdma_drain_share", "number", 0.05, "And no larger share of all nodes of the inventory, but for one node, which always may.",
        "choice", minimum=0, maximum=1),
    Key("rdma_drain_leaf_most", "int", 2,
        "And so many nodes at most of one group of rdma_leaves: what more of them have at once is the switch's.",
        "choice: two nodes of a leaf may fail by themselves", minimum=0, maximum=100000),
    Key("rdma_drain_gate", "str", "person",
        "What gives a node back that `watch --drain` drained and whose findings are cured. person: somebody; validate or bench: a run on "
        "it that passes; none: nothing more.", "choice: a node that failed proves itself first",
        choices=("person", "validate", "bench", "none")),
)
