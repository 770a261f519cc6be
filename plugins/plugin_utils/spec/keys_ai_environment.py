# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for the Python environment that jobs run in: torch, pinned, below a versioned prefix. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key
from .keys_nccl import PATH, PATH_FORM

REQUIREMENT = r"^[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9][A-Za-z0-9.!+_-]*)?$"
TORCH = r"^[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}(\+(cpu|cu[0-9]{3}))?$"

AI_ENVIRONMENT = (
    Key("ai_environment_kind", "ai_environment", "str", "none",
        "What the environment is: venv (of a Python that the node has), or conda (whose Python comes with it). none: none is made. Nodes "
        "without an NVIDIA GPU are skipped, unless ai_environment_torch asks for a build without CUDA (+cpu).",
        "choice: many sites bring torch with containers", choices=("none", "venv", "conda")),
    Key("ai_environment_path", "ai_environment", "str", "/opt/railwright/ai",
        "Directory below which environments are put, each in one of its own. The link current leads to the one that is asked for.",
        "choice", pattern=PATH, form=PATH_FORM),
    Key("ai_environment_python", "ai_environment", "str", None,
        "venv: version of the node's Python, such as 3.12. Unset: its python3. conda: what ai_environment_conda_explicit has.",
        "choice: the system's own is the one that is maintained with it", pattern=r"^3\.[0-9]{1,2}$", form="3.MINOR, in quotes",
        example="3.12"),
    Key("ai_environment_torch", "ai_environment", "str", None,
        "Version of torch as its wheel has it: 2.9.1 of PyPI, 2.9.1+cu126 or 2.9.1+cpu of PyTorch's own index. Needed where an environment "
        "is made.", "docs/ai-environment.md", pattern=TORCH, form="a release like 2.9.1, 2.9.1+cu126 or 2.9.1+cpu, in quotes",
        example="2.9.1"),
    Key("ai_environment_requirements", "ai_environment", "str", None,
        "The lock: a file on the controller in pip's form, every package with NAME==VERSION and --hash=sha256:…, dependencies too. Unset: "
        "the wheels of ai_environment_wheels that fit the node are the lock, with their checksums as the controller computes them.",
        "pip (hash-checking mode)", pattern=PATH, form=PATH_FORM, example="/srv/railwright/torch.lock"),
    Key("ai_environment_wheels", "ai_environment", "str", None,
        "Directory of wheels on the controller. They are copied to the node and no package index is asked.",
        "choice: nodes often have no way out", pattern=PATH, form=PATH_FORM, example="/srv/railwright/wheels"),
    Key("ai_environment_index_url", "ai_environment", "str", None,
        "Package index that the nodes take the locked wheels from, such as https://download.pytorch.org/whl/cu126.",
        "choice: which package index a site trusts is for the site to say", form="an http or https URL without user and password in it",
        example="https://mirror.example.com/simple"),
    Key("ai_environment_extra_index_urls", "ai_environment", "list", [],
        "Further indexes, for what the first one does not have. The lock's checksums hold for them too.", "pip (--extra-index-url)",
        elements="str", form="a list of http or https URLs without user and password in them", example=["https://mirror.example.com/more"]),
    Key("ai_environment_packages", "ai_environment", "list", [],
        "Packages that the environment must have beside torch, NAME or NAME==VERSION. The lock must have them, and the environment is "
        "asked for them before it is used.", "choice", elements="str", pattern=REQUIREMENT, form="a list of NAME or NAME==VERSION",
        example=["numpy==2.1.3"]),
    Key("ai_environment_conda_installer", "ai_environment", "str", None,
        "conda: the installer as a file on the controller (Miniforge3-VERSION-Linux-x86_64.sh). It is only a tool and goes away again.",
        "choice: Miniconda's terms are for the site to accept, Miniforge has none of that kind", pattern=PATH, form=PATH_FORM,
        example="/srv/railwright/Miniforge3.sh"),
    Key("ai_environment_conda_installer_sha256", "ai_environment", "str", None, "conda: its checksum.",
        "choice: nothing is run as root that nobody vouches for", pattern=r"^[0-9a-f]{64}$", form="64 lower case hexadecimal digits",
        example="0" * 64),
    Key("ai_environment_conda_explicit", "ai_environment", "str", None,
        "conda: the packages as a file on the controller, as conda list --explicit --sha256 writes it: @EXPLICIT and a URL with its "
        "checksum on every line. Python among them; torch too, or from the lock.", "conda (explicit specification files)", pattern=PATH,
        form=PATH_FORM, example="/srv/railwright/explicit.txt"),
    Key("ai_environment_owner", "ai_environment", "str", "root",
        "The user that the environment belongs to. It is read by everybody.", "choice: what jobs use is not theirs to change",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$", form="a user name of at most 32 characters, without blanks"),
)

AI_ROLES = ("ai_environment",)
AI_KEYS = AI_ENVIRONMENT
