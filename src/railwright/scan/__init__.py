# SPDX-License-Identifier: GPL-3.0-or-later
"""A scan: all nodes of an inventory are read over ssh connections of our own, one connection and one command each.

Ansible costs a quarter of a second of controller CPU a node; this costs a few milliseconds. Only what changes nothing goes this way.

* ``login``: a host's Ansible variables become what ssh needs, or the reason why that node goes by Ansible
* ``ssh_config``: what OpenSSH makes of its configuration, asked of OpenSSH itself (``ssh -G``)
* ``connection``: asyncssh connections, jump hosts, host keys, and what each fault of ssh means
* ``dialogue``: the one command on a node: the code and the question go in, the answer comes out
* ``feed``: a command that goes on, line by line, until one side ends
* ``questions``: what each verb asks, and what it makes of the answers
* ``scan``: all of it over many nodes at once
"""
