"""Log files: put aside by size, and their last lines."""

from assay_local import logs
from assay_local.logs import last_lines, rotate


def test_a_small_log_stays(tmp_path):
    log = tmp_path / "grader.log"
    log.write_text("a line\n")

    rotate(log)

    assert [path.name for path in tmp_path.iterdir()] == ["grader.log"]


def test_a_large_log_is_put_aside_and_the_oldest_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_LARGEST_BYTES", 4)
    log = tmp_path / "grader.log"
    for number in range(6):
        log.write_text(f"line {number}")
        rotate(log)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "grader.log.1": "line 5",
        "grader.log.2": "line 4",
        "grader.log.3": "line 3",
    }


def test_the_last_lines_are_those_that_say_something(tmp_path):
    log = tmp_path / "grader.log"
    log.write_bytes(b"first\n\nsecond \xff\n  \nthird\n")

    assert last_lines(log, 2) == ["second \ufffd", "third"]
    assert last_lines(tmp_path / "none.log") == ()
