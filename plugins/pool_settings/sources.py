"""Which settings file holds, and its content while the file may change."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from pool_settings.problems import Problem, SettingsInvalid
from pool_settings.reading import read_file
from pool_settings.settings import Settings

VARIABLE = "PHALANX_POOLS"
FILE = "pools.toml"

log = logging.getLogger(__name__)


def pools_file(home: Path, named: Path | None = None) -> tuple[Path, str]:
    """The file, and who names it: the argument, else PHALANX_POOLS, else `pools.toml` in the state folder.

    Raises:
        SettingsInvalid: PHALANX_POOLS is not absolute: processes that work in other folders would find other files.
    """
    if named is not None:
        return named, "--pools"
    if variable := os.environ.get(VARIABLE):
        path = Path(variable)
        if not path.is_absolute():
            sentence = f"${VARIABLE} must be an absolute path. Put the folder before it"
            raise SettingsInvalid([Problem(variable, None, "", sentence)])
        return path, f"${VARIABLE}"
    return home / FILE, "default"


def load(home: Path, named: Path | None = None) -> Settings:
    """The settings of this installation; the defaults if no file is named and the state folder has none.

    Raises:
        SettingsInvalid: the file can't be read, or something in it is wrong.
    """
    path, origin = pools_file(home, named)
    if origin == "default" and not path.exists():
        return Settings()
    return read_file(path)


class WatchedSettings:
    """The settings as they are now: read again when the file changes, kept as they were when it becomes invalid."""

    def __init__(self, home: Path) -> None:
        """Watch the file that holds for this state folder; nothing is read yet."""
        self._home = home
        self._lock = threading.Lock()
        self._seen: object = None
        self._good: Settings | None = None

    def current(self) -> Settings:
        """What holds.

        Raises:
            SettingsInvalid: the file is invalid, and no valid one was ever read by this process.
        """
        with self._lock:
            if self._good is not None and self._mark() == self._seen:
                return self._good
            mark = self._mark()
            try:
                settings = load(self._home)
                self._refuse_vanished(settings)
            except SettingsInvalid as error:
                if self._good is None:
                    raise
                log.error("the settings last read (of %s) go on to hold, since the file is invalid now:\n%s",
                          self._good.path or "no file", error)  # fmt: skip
            else:
                if self._good is not None:
                    log.info("settings read again from %s", settings.path)
                self._good = settings
            self._seen = mark
            return self._good

    def _mark(self) -> object:
        """Changes whenever the file does."""
        try:
            path, _ = pools_file(self._home)
            found = path.stat()
        except (SettingsInvalid, OSError):
            return "no file"
        return str(path), found.st_mtime_ns, found.st_size, found.st_ino

    def _refuse_vanished(self, settings: Settings) -> None:
        """An editor may be replacing the file: for that moment nothing must be admitted past its quotas."""
        if self._good is not None and self._good.path is not None and settings.path is None:
            sentence = "has vanished. Write an empty file if the defaults shall hold"
            raise SettingsInvalid([Problem(str(self._good.path), None, "", sentence)])


_watched: dict[Path, WatchedSettings] = {}
_watched_lock = threading.Lock()


def watch(home: Path) -> WatchedSettings:
    """This process's one watch over the settings of a state folder."""
    with _watched_lock:
        return _watched.setdefault(home.resolve(), WatchedSettings(home))
