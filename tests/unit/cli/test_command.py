"""The command as a program: exit codes, errors on one line, pipes and terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

import tablespec

PROGRAM = str(Path(sys.executable).parent / "tablespec")
COMMANDS = ["show", "history", "files", "read", "schema", "protocol", "fsck"]


@pytest.fixture
def numbers(tmp_path) -> str:
    """The path of a table with more rows than fit into a pipe."""
    rows = pa.table({"n": range(100_000)})
    tablespec.create_table(str(tmp_path / "numbers"), rows.schema).append(rows)
    return str(tmp_path / "numbers")


def test_the_program_names_its_release_and_its_commands(command):
    assert command("--version").out == f"tablespec {tablespec.__version__}\n"
    assert [name for name in COMMANDS if f" {name} " not in command("--help").out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_without_a_table_is_one_line_of_error(command, tmp_path, name):
    outcome = command(name, tmp_path / "nowhere")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: there is no table at file://{tmp_path}/nowhere; check the path, "
        "or make one with tablespec.create_table\n"
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("read", "--where", "cty = 'sf'"), "error: the table has no column 'cty'; did you mean city?\n"),
        (("read", "--columns", "id, cty"), "error: the table has no column 'cty'; did you mean city?\n"),
        (("files", "--where", "id = 'one'"), "error: column id is of type long, which does not fit the value 'one'\n"),
        (("schema", "--at", "9"), "error: {url} has no completed instant 9; it has 0 to 2\n"),
        (
            ("files", "--at", "noon"),
            "error: {url} has no completed instant 'noon'; "
            "it has versions and times, such as 12 or 2026-01-31T12:00:00+00:00\n",
        ),
    ],
    ids=["filter column", "projected column", "filter type", "version", "time"],
)
def test_a_question_that_the_table_cannot_answer_is_one_line_of_error(command, trips, arguments, error):
    name, *options = arguments

    outcome = command(name, trips.path, *options)

    assert (outcome.code, outcome.out, outcome.err) == (2, "", error.format(url=trips.url))


def test_a_damaged_file_is_one_line_of_error(command, trips):
    (trips.path / "city=la/2.parquet").write_bytes(b"not parquet")

    outcome = command("read", trips.path)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: city=la/2.parquet of {trips.url} is damaged: ")
    assert outcome.err.count("\n") == 1


def test_a_storage_option_must_be_a_pair(command, trips):
    outcome = command("show", trips.path, "--storage-option", "AWS_REGION")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1] == (
        "Error: Invalid value for --storage-option: 'AWS_REGION' is not of the form KEY=VALUE"
    )


def test_storage_options_reach_the_store(command):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    secrets = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    options = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ALLOW_HTTP": "true", **secrets}
    named = {key.lower(): value for key, value in secrets.items() if key != "AWS_REGION"}
    s3 = boto3.client("s3", endpoint_url=options["AWS_ENDPOINT_URL"], region_name="us-east-1", **named)
    s3.create_bucket(Bucket="tables")
    rows = pa.table({"n": [1]})
    tablespec.create_table("s3://tables/numbers", rows.schema, storage_options=options).append(rows)

    pairs = [part for key, value in options.items() for part in ("--storage-option", f"{key}={value}")]
    outcome = command("read", "s3://tables/numbers", "--json", *pairs)
    server.stop()

    assert (outcome.code, outcome.out) == (0, '{"n": 1}\n')


def test_an_oddity_of_the_table_is_a_warning_on_the_side(command, trips):
    commit = trips.commit(0)
    commit.write_text("".join(line for line in commit.read_text().splitlines(keepends=True) if "protocol" not in line))

    outcome = command("schema", trips.path, "--json")

    assert json.loads(outcome.out)["version"] == 2
    assert outcome.err.startswith("warning: ")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("options", [("--json",), ()], ids=["lines", "table"])
def test_a_reader_that_has_seen_enough_ends_the_program_quietly(numbers, options):
    reading = [PROGRAM, "read", numbers, "--limit", "0", *options]
    program = subprocess.Popen(reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stderr is not None

    program.stdout.readline()
    program.stdout.close()

    assert program.stderr.read() == b""
    assert program.wait() == 141


@pytest.mark.parametrize("arguments", [("read",), ("read", "--json"), ("show",), ("schema",)], ids=" ".join)
def test_an_output_of_any_encoding_gets_an_answer(tmp_path, arguments):
    path = str(tmp_path / "cities")
    cities = pa.table({"straße": ["日本", "ny"]})
    tablespec.create_table(path, cities.schema, properties={"größe": "1"}).append(cities)

    done = _run([arguments[0], path, *arguments[1:]], env={**os.environ, "PYTHONIOENCODING": "ascii"})

    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xdf" in done.stdout or "\\u00df" in done.stdout or "\\xf6" in done.stdout
    assert "\\u2500" not in done.stdout


@pytest.mark.parametrize("arguments", [("read", "--json"), ("delete", "--where", "n < 10")], ids=["rows", "facts"])
def test_an_answer_that_cannot_be_written_is_one_line_of_error(numbers, arguments):
    with Path("/dev/full").open("w") as full:
        done = _run([arguments[0], numbers, *arguments[1:]], stdout=full)

    assert (done.returncode, done.stderr) == (3, "error: the answer cannot be written: No space left on device\n")


def test_a_closed_output_swallows_the_answer(numbers):
    done = subprocess.run(["sh", "-c", f"{PROGRAM} read {numbers} >&-"], stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_program_is_a_module_too():
    done = subprocess.run(
        [sys.executable, "-m", "tablespec.cli", "--version"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, f"tablespec {tablespec.__version__}\n")


def test_the_program_without_its_packages_says_what_to_install():
    hidden = "import sys; sys.modules['typer'] = None; import tablespec.cli; tablespec.cli.main()"

    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the command needs packages that are not installed; pip install 'tablespec[cli]'\n"


@pytest.mark.parametrize(("seconds", "shown"), [(1.5, True), (0.1, False)], ids=["long", "short"])
def test_a_terminal_shows_progress_of_work_longer_than_a_second(seconds, shown):
    assert (b"counting" in _in_a_terminal(_working(seconds))) is shown


def test_a_terminal_shows_how_many_tasks_of_upkeep_are_done():
    program = (
        "import time; from tablespec.cli.screen import progress; from tablespec.cli.maintain import Watched\n"
        "with progress('tidying') as bar: list(Watched(bar).run(time.sleep, [0.01] * 6 + [1.5]))"
    )

    assert b"6/7" in _in_a_terminal(program)


def test_a_pipe_never_shows_progress():
    done = subprocess.run([sys.executable, "-c", _working(1.5)], capture_output=True, check=True)

    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_terminal_gets_lines_that_fit(trips):
    program = f"from tablespec.cli.app import run; run(['files', {str(trips.path)!r}])"

    lines = re.sub(r"\x1b\[\d*m", "", _in_a_terminal(program).decode()).splitlines()

    assert [line for line in lines if len(line) > 40] == []
    assert [line.split()[0] for line in lines[3:]] == ["city=la", "/2.parq", "uet", "city=sf", "/1.parq", "uet"]


def _run(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    given = {"stdout": subprocess.PIPE, **options}
    return subprocess.run([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, check=False, **given)


def _working(seconds: float) -> str:
    return (
        "import time; from tablespec.cli.screen import progress\n"
        f"with progress('counting', 2) as advance: advance(); time.sleep({seconds})"
    )


def _in_a_terminal(program: str) -> bytes:
    """What a terminal of 40 columns shows of a Python program."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "40"}
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 1024):
            seen += chunk
    except OSError:
        pass  # Linux tells the end of a terminal this way.
    os.close(ours)
    assert running.wait() == 0
    return seen
