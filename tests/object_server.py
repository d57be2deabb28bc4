"""An S3 object store on the loopback, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock
from urllib.request import Request, urlopen

from dbanon.stores import objects

BUCKET = "clinic"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDNOTTOLD", "AWS_SECRET_ACCESS_KEY": "secret-not-told"}


@contextmanager
def served() -> Iterator[str]:
    """A store with one bucket; sets the environment to reach it, and yields the bucket's URL."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        variables = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_REGION": "us-east-1"}
        with mock.patch.dict(os.environ, {**KEYS, **variables}):
            objects._file_system.cache_clear()
            # All servers in a process share their buckets.
            urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
            objects.ObjectPath.parse(f"s3://{BUCKET}/x").file_system.mkdir(BUCKET)
            yield f"s3://{BUCKET}"
    finally:
        objects._file_system.cache_clear()
        server.stop()
