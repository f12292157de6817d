"""TCP ports on the loopback: which are free, and who keeps a taken one."""

from __future__ import annotations

import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: what a closed connection left behind doesn't count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def a_free_port() -> int:
    """Any free port; somebody else may take it before it is used."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def holder_of(port: int) -> str:
    """Who listens on the port, as far as this user may see: "pid 4711 (nginx)" or ""."""
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                name = Path(f"/proc/{connection.pid}/comm").read_text().strip()
                return f"pid {connection.pid} ({name})"
    except (psutil.Error, OSError):
        return ""
    return ""
