# SPDX-License-Identifier: GPL-3.0-or-later
"""Alibaba's eRDMA driver as source, in the rows that ``artifacts.py`` joins: (name, version, url, kind, pin, value, source).

The vendor's installer is on a host that only machines inside Alibaba's VPC can resolve, and only by http: it is the checksum
that makes it trustworthy. Nobody here has had one of those archives in hand.
"""

# The only commit after 0.2.35. Packed as GitHub does it (git archive, gzip -n), which gives known checksums of other repositories.
_COMMIT = "8a062864c9ef4697422bfcb8ad255c686a52c920"
_INSTALLER = "http://mirrors.cloud.aliyuncs.com/erdma/erdma_installer-{version}.tar.gz"
_PAGE = "ALI (page erdma-usage, table of installer releases, %s); read there, not compared with a downloaded file"
ERDMA_DRIVER_ROWS = (
    ("erdma-driver", "0.2.37", "https://github.com/alibaba/elastic-rdma-drivers/archive/%s.tar.gz" % _COMMIT, "archive", "sha256",
     "4387643f7d5cc0458a8d336f4c30330bd24d5dbb10425a3c501bb1e4231fbc6a",
     "ERD (r0.2.37, 2025-07-23); computed here from the commit in a copy of the repository"),
    ("erdma-driver-git", "0.2.37", "https://github.com/alibaba/elastic-rdma-drivers.git", "archive", "commit", _COMMIT,
     "ERD (erdma: Bump to version 0.2.37, 2025-07-23)"),
    ("erdma-installer", "1.5.7", _INSTALLER, "archive", "sha256",
     "cb44f4c4aaaabfbd81224c85a9e7889732bda26cc832ff70ecc0559bcc14165c", _PAGE % "2026-03-31"),
    ("erdma-installer-1.5.6", "1.5.6", _INSTALLER, "archive", "sha256",
     "a0529f5ca597ffb31a960c59b8c13ce854550c3512e6ce4c0542784f8e99fcc2", _PAGE % "2026-03-30"),
    ("erdma-installer-1.4.5", "1.4.5", _INSTALLER, "archive", "sha256",
     "83d810301f9141ca6f387a7e0cf99c89f40b27d484a312eb1d1bd605ebf8bc28", _PAGE % "2025-04-29"),
    ("erdma-installer-1.4.3", "1.4.3", _INSTALLER, "archive", "sha256",
     "f82c1eb7a5f93387185a6c0ce7a78c39495d8a07a3e2ee8248cec8b9d525ba2f", _PAGE % "2025-03-13"),
)
