"""An object store that speaks S3, in this process: other processes reach it, too."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any, Self

import pytest

BUCKET = "bucket"


class S3:
    """A server with one bucket.

    Attributes:
        storage_options: What fsspec needs to reach it.
    """

    def __init__(self) -> None:
        """Starts nothing yet."""
        needs = "needs an object store: pip install s3fs 'moto[s3]' flask flask-cors"
        pytest.importorskip("s3fs", reason=needs)
        server = pytest.importorskip("moto.server", reason=needs)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)

    def __enter__(self) -> Self:
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.storage_options: dict[str, Any] = {
            "key": "someone",
            "secret": "hush-hush",
            "client_kwargs": {"endpoint_url": f"http://{host}:{port}"},
        }
        self.files.mkdir(BUCKET)
        return self

    def __exit__(self, *_exception: object) -> None:
        with contextlib.suppress(Exception):
            self.files.rm(BUCKET, recursive=True)
        self._server.stop()

    @property
    def files(self) -> Any:
        """fsspec's file system."""
        import s3fs

        return s3fs.S3FileSystem(**self.storage_options)

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a process reaches it without options."""
        return {
            "AWS_ACCESS_KEY_ID": self.storage_options["key"],
            "AWS_SECRET_ACCESS_KEY": self.storage_options["secret"],
            "AWS_ENDPOINT_URL": self.storage_options["client_kwargs"]["endpoint_url"],
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def copy(self, log: Path, name: str) -> str:
        """Copies what a directory has now, as `aws s3 sync` does. Returns its URL."""
        for path in sorted(it for it in log.iterdir() if it.is_file()):
            self.files.pipe(f"{BUCKET}/{name}/{path.name}", path.read_bytes())
        return f"s3://{BUCKET}/{name}/"
