"""Keeps the tables of a file current from Airflow, each ten minutes.

For Airflow 3. `walrow run --once` receives all that is committed when it starts, applies it, and
ends: with 0 if all tables are current, and with 1 if some are not. Then the task fails and is tried
again, and its log names them. A run that is killed loses nothing: the next one goes on.
"""

from __future__ import annotations

import datetime as dt

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "walrow_shop",
    schedule=dt.timedelta(minutes=10),
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    # A second one would be refused while the first one runs.
    max_active_runs=1,
    # The next run takes all changes since the last one.
    catchup=False,
):
    BashOperator(
        task_id="run_once",
        bash_command="walrow run /etc/walrow/shop.toml --once --json",
        # Passwords come from here or from PGPASSFILE, never from the file.
        env={"PGPASSFILE": "/etc/walrow/pgpass"},
        append_env=True,
        retries=2,
        retry_delay=dt.timedelta(minutes=1),
        execution_timeout=dt.timedelta(hours=2),
    )
