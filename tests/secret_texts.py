"""Connection strings and URLs with a secret, which walrow must not show."""

from __future__ import annotations

import os
from pathlib import Path

CANARY = "hunter2canary"
_AT = "127.0.0.1:1"
_PLACE = "host=127.0.0.1 port=1 dbname=shop"

#: Those that libpq takes, and those that are nearly so.
TEXTS = [
    f"{_PLACE} user=me password={CANARY} channel_binding=require",
    f"{_PLACE} password={CANARY} load_balance_hosts=random",
    f"{_PLACE} password='{CANARY} x=y'",
    f"{_PLACE} sslpassword={CANARY}",
    f"{_PLACE} oauth_client_secret={CANARY}",
    f"{_PLACE} scram_client_key={CANARY}",
    f"{_PLACE} passwort={CANARY}",
    f"{_PLACE} password={CANARY} no_such_keyword=1",
    f"{_PLACE} password=a {CANARY}",
    f"{_PLACE} password='{CANARY}",
    f"password={CANARY}",
    f"password={CANARY}.wire",
    f"password = {CANARY} port=1",
    "service=mine",
    f"postgresql://me:{CANARY}@{_AT}/shop",
    f"postgres://me:hun@{CANARY}@{_AT}/shop",
    f"postgresql://me:hun@{CANARY}/x@{_AT}/shop",
    f"postgresql://me:hun@x/{CANARY}@{_AT}/shop",
    f"postgresql://me:12/{CANARY}@{_AT}/shop",
    f"postgresql://{_AT}/shop?password={CANARY}",
    f"postgresql://{_AT}/shop?user=me&sslpassword={CANARY}",
    f"postgresql://me:{CANARY}@[127.0.0.1/shop",
    f"postgresql://me:%zz{CANARY}@{_AT}/shop",
    f"postgresql+psycopg://me:{CANARY}@{_AT}/shop",
    f"jdbc:postgresql://{_AT}/shop?password={CANARY}",
    f"//me:{CANARY}@{_AT}/shop",
    f"host=127.0.0.1 port=1 dbname=postgresql://me:{CANARY}@{_AT}/shop",
    f"host=127.0.0.1 port=1 dbname='user=me password={CANARY}'",
    f"host=postgresql://{_AT}/shop?password={CANARY}",
]

#: URLs of files and logs.
URLS = [
    f"https://me:{CANARY}@{_AT}/log/",
    f"https://{_AT}/a.wire?signature={CANARY}",
    f"s3://key:{CANARY}@bucket/log/",
    f"nowhere://key:{CANARY}@bucket/a.wire",
]


def services(directory: Path) -> dict[str, str]:
    """An environment with a file of services, whose password is the secret."""
    file = directory / "services"
    file.write_text(f"[mine]\nhost=127.0.0.1\nport=1\npassword={CANARY}\n")
    return {**os.environ, "PGSERVICEFILE": str(file), "PGPASSWORD": CANARY}
