"""A small, quiet Spark in this process's own machine, for as long as a `with` lasts."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from data_pipelines.java_runtime import JavaRuntime, find_java
from data_pipelines.partition_claim import claimed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CORES = 2
MEMORY = "768m"
SCRATCH = ".spark"
CACHE = ".cache"

# Short jobs: the first compiler tier, one collector thread and no performance files save about half of the CPU time.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xss4m"
LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
# Spark raises the level for its shell, which it takes pyspark for, unless that has one of its own.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex
"""


@contextmanager
def small_spark(data_dir: Path) -> Iterator[SparkSession]:
    """Start Spark and stop it afterwards, its JVM included; everything it writes is below `data_dir`.

    Importing pyspark is left to the moment when there is work for it.
    """
    java = find_java(os.environ, data_dir / CACHE)
    scratch_root = data_dir / SCRATCH
    with ExitStack() as stack:
        with claimed(scratch_root, "scratch", on_wait=lambda _: None):  # while a new folder isn't yet claimed
            remove_leftovers(scratch_root)
            scratch = Path(tempfile.mkdtemp(dir=scratch_root))
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            stack.enter_context(claimed(scratch, "alive"))
        yield stack.enter_context(_session(scratch, java))


@contextmanager
def _session(scratch: Path, java: JavaRuntime) -> Iterator[SparkSession]:
    log.info("starting Spark (local[%d], %s, Java from %s)", CORES, MEMORY, java.source)
    (scratch / "log4j2.properties").write_text(LOGGING)
    os.environ |= {
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
        "TMPDIR": str(scratch),
    }
    tempfile.tempdir = str(scratch)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    from pyspark.sql import SparkSession

    options = f"{JVM_OPTIONS} -Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile={scratch / 'log4j2.properties'}"
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": MEMORY,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.csv.parser.columnPruning.enabled": "false",  # a row of a wrong length must not pass
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    others = psutil.Process().children()
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("phalanx")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        # A JVM whose driver leaves while it starts finds nobody to tell its port to, and would stay for ever.
        for child in psutil.Process().children():
            if child not in others:
                child.kill()
                child.wait()


def remove_leftovers(scratch_root: Path) -> None:
    """Remove the scratch folders of processes that died; theirs are those that nobody claims."""
    for leftover in scratch_root.glob("tmp*"):
        with claimed(leftover, "alive") as is_left:
            if is_left:
                _end_jvms_of(leftover)
                shutil.rmtree(leftover, ignore_errors=True)


def _end_jvms_of(scratch: Path) -> None:
    """End a JVM that was still starting when its driver was killed; it is known by the scratch folder it was given."""
    for process in psutil.process_iter(["cmdline"]):
        if any(f"-Djava.io.tmpdir={scratch} " in f"{argument} " for argument in process.info["cmdline"] or ()):
            with suppress(psutil.Error):
                process.kill()
                process.wait(10)
