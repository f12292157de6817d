"""The program that `phalanx up --detach` leaves running; what it says goes to logs/up.log.

The administrator's database URL, if any, comes on standard input.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embedded_stack.airflow_settings import Folders
from embedded_stack.errors import StackError
from embedded_stack.foreground import Session, serve
from embedded_stack.launcher import Launcher, Options
from embedded_stack.state_folder import StateFolder


def main() -> int:
    """Serve until asked to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--home", "--dags", "--plugins"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    asked = parser.parse_args()
    options = Options(Folders(asked.dags, asked.plugins), asked.port, database_url=sys.stdin.read())
    try:
        serve(StateFolder.at(asked.home), options, Session(on_up=_stay_silent), _say)
    except StackError as error:
        _say(str(error))
        return 1
    return 0


def _stay_silent(_launcher: Launcher) -> None:
    """Whoever started this shows the address and the login: the log is no place for a password."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
