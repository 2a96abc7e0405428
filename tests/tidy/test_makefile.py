"""What `make clean` removes, and what it keeps."""

import shutil
import subprocess
from pathlib import Path

from tests.tidy.tree import ROOT

BUILT = (
    "build/site/index.html",
    "dist/tidemill.whl",
    "demo-output/part",
    ".venv/bin/python",
    "src/a/__pycache__/a.pyc",
)
KEPT = (
    "tidemill-data/identity.json",
    "mills/broker-1.yaml",
    "job.py",
    "spark-warehouse/orders/part-0.parquet",
    "metastore_db/log/log1.dat",
    "examples/cluster/first.yaml",
)


def test_clean_keeps_the_data_of_the_user(tmp_path: Path) -> None:
    """
    `make clean` keeps the data of brokers, the Spark tables and the programs that a user who follows README.md has in
    the clone.
    """
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (*BUILT, *KEPT):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    subprocess.run(["make", "-C", str(tmp_path), "clean"], check=True, capture_output=True)

    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"Makefile", *KEPT} == left
