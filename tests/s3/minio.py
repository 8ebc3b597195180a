"""Run tests against MinIO, an object store whose conditional put is atomic: built by Go into build/, on loopback, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

ROOT = Path(__file__).parents[2]
# The last that MinIO published for `go install`.
MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
BINARY = ROOT / "build" / "bin" / "minio"
USER = PASSWORD = "tablespec-tests"
BUCKET = "tables"
STARTING_SECONDS = 60


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments and tell how it ended; without a store there is nothing to run, which is said."""
    reason = None if BINARY.exists() else build()
    if reason is not None:
        print(f"skipped: {reason}")
        return 0
    with server() as endpoint:
        environment = {
            **os.environ,
            "TABLESPEC_S3_ENDPOINT": endpoint,
            "TABLESPEC_S3_USER": USER,
            "TABLESPEC_S3_PASSWORD": PASSWORD,
        }
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, cwd=ROOT).returncode


def build() -> str | None:
    """Build the server, or tell why that cannot be done; what it is built from stays in Go's own cache."""
    if shutil.which("go") is None:
        return "Go is missing, which builds the object store; install it from https://go.dev/dl"
    print(f"building {MODULE}: about six minutes of one core, once", flush=True)
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(BINARY.parent)}
    built = subprocess.run(["go", "install", "-trimpath", "-ldflags=-s -w", MODULE], env=environment)
    return None if built.returncode == 0 else "Go could not build the object store, see above"


@contextmanager
def server() -> Iterator[str]:
    """A server with an empty bucket; gives its endpoint."""
    with tempfile.TemporaryDirectory(prefix="tablespec-minio-") as folder:
        endpoint = f"127.0.0.1:{_free_port()}"
        environment = {
            **os.environ,
            "MINIO_ROOT_USER": USER,
            "MINIO_ROOT_PASSWORD": PASSWORD,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }
        command = [str(BINARY), "server", "--quiet", "--address", endpoint, f"{folder}/data"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            _wait(process, f"http://{endpoint}")
            client = boto3.client(
                "s3",
                endpoint_url=f"http://{endpoint}",
                aws_access_key_id=USER,
                aws_secret_access_key=PASSWORD,
                region_name="us-east-1",
            )
            client.create_bucket(Bucket=BUCKET)
            yield f"http://{endpoint}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait(process: subprocess.Popen[bytes], endpoint: str) -> None:
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the object store ended with {process.returncode} instead of serving {endpoint}")
        try:
            with urllib.request.urlopen(f"{endpoint}/minio/health/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit(f"the object store did not answer at {endpoint} for {STARTING_SECONDS} seconds")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
