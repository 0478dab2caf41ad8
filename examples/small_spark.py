"""Settings of Spark for small tables on one small machine. The demo and the tests have them.

They suit any session that ends after a few minutes: in an hour, Java's second compiler and its
parallel garbage collectors are worth their cost.
"""

from __future__ import annotations

from pathlib import Path

#: `make` fetches the jars of Delta and Iceberg to here.
IVY = Path(__file__).resolve().parent.parent / "target" / "ivy"
#: Java's second compiler takes two fifths of the CPU time of a session of a minute.
#: As Spark begins, its classes need more room than Java gives them at first.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
SMALL = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.jars.ivy": str(IVY),
    # The defaults are for large tables.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def with_fetched_jars(settings: dict[str, str]) -> dict[str, str]:
    """Settings with the fetched jars instead of packages, which Ivy would look at for 2 s.

    Without the jars, the settings are as they were, and Spark fetches the packages.
    """
    groups = {it.split(":")[0] for it in settings["spark.jars.packages"].split(",")}
    if "io.delta" in groups:
        groups.add("io.unitycatalog")
    # Delta and Iceberg share the others with Spark, which has its own.
    jars = sorted(
        path
        for path in IVY.glob("jars/*.jar")
        if path.name.startswith(tuple(f"{group}_" for group in groups))
    )
    if not (IVY / ".fetched").exists() or not jars:
        return settings
    place = ":".join(map(str, jars))
    return {
        **settings,
        "spark.jars.packages": "",
        "spark.driver.extraClassPath": place,
        "spark.executor.extraClassPath": place,
    }
