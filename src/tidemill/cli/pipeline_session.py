"""Starts and ends the Spark session of a command."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from tidemill.cli.failure import ExitCode, Failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET: Final = {"spark.log.level": "FATAL", "spark.ui.showConsoleProgress": "false"}
"""Silences Spark's log, which would bury the one-sentence error message of the command."""
LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""Settings for a local master: Spark does not listen on addresses that other machines can reach."""


def require_spark() -> None:
    """Raise `Failed` if PySpark or pyarrow is not installed."""
    for library in ("pyspark", "pyarrow"):
        if find_spec(library) is None:
            raise Failed(f"pipelines need {library}: pip install 'tidemill[spark]'", exit_code=ExitCode.USAGE)


@contextmanager
def spark_session(name: str, master: str, conf: Mapping[str, str]) -> Iterator["SparkSession"]:
    """Yield a session and stop it at the end.  `conf` overrides the settings here and those of `spark.session`."""
    from tidemill.spark import session

    is_local = master.startswith("local")
    if is_local:
        # Without this variable, Spark warns if the host name resolves to a loopback address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = session.builder(name, master)
    for key, value in {**QUIET, **(LOCAL if is_local else {}), **conf}.items():
        builder = builder.config(key, value)
    spark = _started(builder, master)
    try:
        yield spark
    finally:
        spark.stop()


def _started(builder: "SparkSession.Builder", master: str) -> "SparkSession":
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            reason = "Spark's Java process did not start: install Java 17 or newer, and set JAVA_HOME to it"
        else:
            reason = f"--master {master}: Spark did not start: {str(error).splitlines()[0]}"
        raise Failed(reason, exit_code=ExitCode.USAGE) from error
