"""PySpark's daemon of workers, without what it does too often before 4.3.

Before each task, a worker forgets what it knows of the directories of `sys.path`. Before Python
3.13, it then reads those of pyspark.zip and spark-core.jar again, which takes 0.15 s.
"""

import importlib
import runpy


def _keep_caches() -> None:
    """No module comes or goes while the tests run."""


importlib.invalidate_caches = _keep_caches
runpy.run_module("pyspark.daemon", run_name="__main__")
