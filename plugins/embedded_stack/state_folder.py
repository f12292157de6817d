"""The state folder (PHALANX_HOME): what lies where in it, and the proof that a folder is one."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded_stack.errors import StackError

SCHEMA = 1
KIND = "phalanx state folder"


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Paths under one home; nothing of the stack is written outside it."""

    home: Path

    @classmethod
    def at(cls, home: Path) -> StateFolder:
        """The folder at `home`, links resolved, so that one folder has one name."""
        return cls(home.expanduser().resolve())

    @property
    def mark(self) -> Path:
        """Written first; a folder without it is not ours."""
        return self.home / "phalanx-home.json"

    @property
    def lock(self) -> Path:
        return self.home / "up.lock"

    @property
    def stack(self) -> Path:
        return self.home / "stack.json"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets.json"

    @property
    def ledger_url(self) -> Path:
        return self.home / "ledger.url"

    @property
    def database(self) -> Path:
        """Where PostgreSQL is, without credentials."""
        return self.home / "database.json"

    @property
    def postgres(self) -> Path:
        return self.home / "postgres"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.home / "airflow"

    @property
    def passwords(self) -> Path:
        """The file that Airflow's simple auth manager reads."""
        return self.airflow / "passwords.json"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def cache(self) -> Path:
        return self.home / "cache"

    @property
    def is_ours(self) -> bool:
        """Whether `prepare` once made this folder."""
        return (read_json(self.mark) or {}).get("kind") == KIND

    def prepare(self) -> None:
        """Make the folder, or take the one that is there.

        Raises:
            StackError: something else lies there, or a newer version of Phalanx wrote it.
        """
        if self.home.is_dir() and not self.is_ours and any(self.home.iterdir()):
            raise StackError(
                f"a state folder was asked for at {self.home}, but the folder holds other things and not the file "
                f"{self.mark.name}. Name an empty or new folder with --home or PHALANX_HOME."
            )
        written = (read_json(self.mark) or {}).get("schema", SCHEMA)
        if written > SCHEMA:
            raise StackError(
                f"{self.home} was written by a newer version of Phalanx (schema {written}; this one knows {SCHEMA}). "
                "Use that version, or name another folder with --home."
            )
        for folder in (self.home, self.airflow, self.logs, self.cache):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.is_ours:
            # Its owner's alone; root's may be passed through, because PostgreSQL has to run as another user there.
            self.home.chmod(0o711 if os.geteuid() == 0 else 0o700)
            write_json(self.mark, {"kind": KIND, "schema": SCHEMA})

    def remove(self) -> None:
        """Remove the folder with all that is in it.

        Raises:
            StackError: the folder is not a state folder.
        """
        if not self.is_ours:
            raise StackError(
                f"{self.home} was to be removed, but it is no state folder of Phalanx: the file {self.mark.name} is "
                "not in it. Nothing was removed; if you mean that folder, remove it by hand."
            )
        # The mark goes last, so that an interrupted removal can be repeated.
        for entry in self.home.iterdir():
            if entry != self.mark:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        self.mark.unlink()
        self.home.rmdir()


def write_text(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file as a whole; readers see the old or the new content, and only `mode` may read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        os.fchmod(handle, mode)
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any, mode: int = 0o600) -> None:
    """Replace the file with `content`."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n", mode)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in the file; None if there is none."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
