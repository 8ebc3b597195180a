"""Whether Spark can start here: it needs Java 17 or newer.

As a script it says what is missing; under CI that is a failure, because there the tests with Spark must run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17
WAY_OUT = (
    "install it with `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`dnf install java-17-openjdk-headless` (Fedora) or `brew install openjdk@17` (macOS)"
)


def missing_java() -> str | None:
    """Why Spark cannot start here and how to change that; None when it can."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None or not Path(program).exists():
        return f"Spark needs Java {OLDEST} or newer, and there is none; {WAY_OUT}"
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < OLDEST:
        return f"Spark needs Java {OLDEST} or newer, and {program} is {version[1] if version else 'unknown'}; {WAY_OUT}"
    return None


def under_ci() -> bool:
    """Whether this is a run of continuous integration, where nothing may be left out."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


if __name__ == "__main__":
    reason = missing_java()
    if reason is not None:
        sys.exit(f"error: {reason}") if under_ci() else sys.stderr.write(f"Without Spark: {reason}\n")
