"""The data folder: closed to others, made once, locked by one."""

import os
import signal
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay_local.folder import DataFolder, FolderError, HeldError, Running, RunningProgram
from assay_local.process import ProcessRef

SECRETS = ("admin-token", "master-key", "runner-token")


def _mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secrets_are_made_once_and_are_the_users_alone(tmp_path):
    first = DataFolder.prepare(tmp_path / "data")
    values = [first.secret(name) for name in SECRETS]
    installation = first.installation

    again = DataFolder.prepare(tmp_path / "data")

    assert [again.secret(name) for name in SECRETS] == values
    assert again.installation == installation
    assert len(set(values)) == len(SECRETS)
    assert min(map(len, values)) >= 43
    assert {_mode(again.root / name) for name in SECRETS} == {0o600}


def test_of_master_keys_that_are_made_at_once_none_is_lost_and_the_older_stay(tmp_path):
    folder = DataFolder.prepare(tmp_path / "data")
    first = folder.secret("master-key")
    with ThreadPoolExecutor(8) as pool:
        for made in [pool.submit(folder.add_master_key) for _ in range(20)]:
            made.result()
    keys = folder.secret("master-key").split()
    assert keys[0] == first
    assert len(set(keys)) == 21
    assert _mode(folder.root / "master-key") == 0o600


def test_a_credential_is_made_when_it_is_asked_for_and_kept(tmp_path):
    folder = DataFolder.prepare(tmp_path / "data")
    made = [folder.credential("nats", "grader"), folder.credential("postgres", "grader")]

    again = DataFolder.prepare(tmp_path / "data")

    assert [again.credential("nats", "grader"), again.credential("postgres", "grader")] == made
    assert len(set(made)) == 2
    assert {_mode(path) for path in (folder.root / "credentials").iterdir()} == {0o600}


def test_secrets_that_were_opened_to_others_are_closed_again(tmp_path):
    folder = DataFolder.prepare(tmp_path / "data")
    (folder.root / "master-key").chmod(0o644)

    DataFolder.prepare(tmp_path / "data")

    assert _mode(folder.root / "master-key") == 0o600


def test_nobody_else_can_read_the_folder(tmp_path):
    folder = DataFolder.prepare(tmp_path / "data")

    assert _mode(folder.root) == (0o711 if os.geteuid() == 0 else 0o700)
    assert {_mode(path) for path in folder.root.iterdir() if path.is_dir()} == {0o700}


def test_a_folder_of_somebody_elses_files_is_refused_and_not_changed(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "letter.txt").write_text("dear")

    with pytest.raises(FolderError, match="not empty and is no data folder"):
        DataFolder.prepare(tmp_path)

    assert _mode(tmp_path) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_folder_that_cannot_be_made_is_refused_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(FolderError, match=r"cannot be used: Not a directory.*--data"):
        DataFolder.prepare(tmp_path / "file" / "data")


def test_who_runs_is_read_as_it_was_written(tmp_path):
    folder = DataFolder.prepare(tmp_path / "data")
    running = Running(
        supervisor=ProcessRef.current(),
        url="http://127.0.0.1:1",
        programs=[RunningProgram("grader", ProcessRef(1, "then"), signal.SIGTERM)],
    )

    folder.write_running(running)

    assert folder.read_running() == running
    folder.forget_running()
    assert folder.read_running() is None


def test_one_alone_holds_the_folder_and_the_other_is_told_who(tmp_path):
    folder = DataFolder.prepare(tmp_path / "data")
    running = Running(supervisor=ProcessRef.current(), url="http://127.0.0.1:1")

    with folder.lock():
        with pytest.raises(HeldError, match="another process"), folder.lock():
            pass
        folder.write_running(running)
        with pytest.raises(HeldError, match=r"running at http://127\.0\.0\.1:1"), folder.lock(60):
            pass
    with folder.lock():
        pass


def test_the_port_of_nats_is_remembered_with_the_same_installation(tmp_path):
    folder = DataFolder.prepare(tmp_path / "data")
    installation = folder.installation
    assert folder.nats_port is None

    folder.remember_nats_port(4711)

    assert (folder.nats_port, folder.installation) == (4711, installation)
