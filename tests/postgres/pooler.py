# SPDX-License-Identifier: Apache-2.0
"""pgbouncer before a server, in transaction mode: it lends a session for one transaction."""
from __future__ import annotations

import shutil
import socket
import subprocess

from pawltest.gateway import free_port
from pawltest.wire import PATIENCE, eventually
from server import PASSWORD, ROLE, Server, User, make_directory

CONFIG = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = 2
logfile = {directory}/log
"""


class Pooler:
    """Ends with the `with` that made it."""

    def __init__(self, server: Server):
        user = User.pick()
        self.port = free_port()
        self.directory = make_directory(user, "pooler")
        config = self.directory / "pgbouncer.ini"
        config.write_text(CONFIG.format(server=server.port, port=self.port,
                                        directory=self.directory))
        (self.directory / "users").write_text(f'"{ROLE}" "{PASSWORD.replace("%40", "@")}"\n')
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "pgbouncer", config],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, **user.to_popen())

    def is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Pooler:
        eventually(lambda: self.process.poll() is not None or self.is_ready(), "pgbouncer")
        assert self.process.poll() is None, "pgbouncer does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        shutil.rmtree(self.directory, ignore_errors=True)
