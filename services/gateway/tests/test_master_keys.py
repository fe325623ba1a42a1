"""Master keys: read from a file and a command, several at a time, and rotated without a value."""

import asyncio
import sys
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

import gateway.tables
from assay_contracts.identifiers import new_id
from gateway.master_keys import KeySource, MasterKeys, NoMasterKeyError
from gateway.own_queries import WORKSPACE, Record
from gateway.vault import SecretUnreadableError, Vault

OLD, NEW, NEWEST = "o" * 40, "n" * 40, "p" * 40
table = gateway.tables.secrets


def printing(tmp_path, program):
    """A command that runs a Python program."""
    script = tmp_path / "command with space.py"
    script.write_text(program)
    return f"{sys.executable} '{script}'"


async def test_the_last_line_is_the_newest_and_a_key_keeps_its_id_wherever_it_stands(tmp_path):
    (tmp_path / "keys").write_text(f"{OLD}\n\n  {NEW}  \n")
    both = await KeySource(tmp_path / "keys").read()
    assert both.newest == MasterKeys.of([NEW]).newest
    assert list(both.by_id) == [*MasterKeys.of([OLD]).by_id, *MasterKeys.of([NEW]).by_id]
    assert MasterKeys.of([OLD, NEW, OLD]).newest == MasterKeys.of([OLD]).newest


async def test_what_a_command_prints_is_newer_than_what_the_file_holds(tmp_path):
    (tmp_path / "keys").write_text(OLD)
    command = printing(tmp_path, f"print('{NEW}')")
    read = await KeySource(tmp_path / "keys", command).read()
    assert list(read.by_id) == list(MasterKeys.of([OLD, NEW]).by_id)


async def test_a_command_is_run_without_a_shell(tmp_path):
    command = printing(tmp_path, "import sys; print('|'.join(sys.argv[1:]) + 'x' * 40)")
    read = await KeySource(command=f"{command} $HOME '; echo' `id`").read()
    assert read.newest == MasterKeys.of(["$HOME|; echo|`id`" + "x" * 40]).newest


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("print('hush' * 20); raise SystemExit(3)", "ended with 3"),
        ("import sys; sys.stderr.write('hush'); raise SystemExit(1)", "ended with 1"),
        ("print('hush')", "shorter than 32 characters: line 1"),
        ("print()", "holds no key"),
        ("print('hush' * 100_000)", "more than 65536 bytes"),
        ("import sys; sys.stdout.buffer.write(b'hush\\xff' * 20)", "no text"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with -9"),
    ],
)
async def test_a_command_that_gives_no_key_is_told_without_its_output(
    tmp_path, capfd, program, told
):
    with pytest.raises(NoMasterKeyError) as caught:
        await KeySource(command=printing(tmp_path, program)).read()
    assert told in str(caught.value)
    assert "hush" not in str(caught.value) + "".join(capfd.readouterr())


@pytest.mark.parametrize("command", ["/nowhere/kms", "", "'open"])
async def test_a_command_that_cannot_be_run_is_told(command):
    with pytest.raises(NoMasterKeyError, match="ASSAY_MASTER_KEY_COMMAND"):
        await KeySource(command=command).read()


async def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    pids = tmp_path / "pids"
    program = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(1000)\n"
    )
    source = KeySource(command=printing(tmp_path, program), seconds=3.0)
    with pytest.raises(NoMasterKeyError, match="within 3 s"):
        await source.read()
    async with asyncio.timeout(60):
        for pid in map(int, pids.read_text().split()):
            while _runs(pid):
                await asyncio.sleep(0.01)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_key_in_a_file_that_is_too_short_is_refused(tmp_path):
    (tmp_path / "keys").write_text(f"{OLD}\nshort\n")
    with pytest.raises(NoMasterKeyError, match="line 2 of the master key file keys"):
        await KeySource(tmp_path / "keys").read()


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{OLD}\n")
    return path


@pytest.fixture
def vault(stage, keys):
    stage.desk.vault = Vault(stage.engine, KeySource(keys))
    return stage.desk.vault


async def keep(stage, vault, count, first=0):
    async with stage.desk.acting() as connection:
        for number in range(first, first + count):
            record = Record("default", WORKSPACE, "", f"KEY_{number:04}")
            await vault.keep(connection, record, f"hush-{number}", "admin")


async def values(vault, count):
    names = [f"KEY_{number:04}" for number in range(count)]
    found = await vault.values("default", "admin", new_id(), names)
    assert found == {name: f"hush-{number}" for number, name in enumerate(names)}


async def rows(stage):
    async with stage.engine.connect() as connection:
        found = await connection.execute(select(table).order_by(table.c.name))
        return [dict(row) for row in found.mappings()]


async def test_older_keys_still_open_and_a_rotation_wraps_anew_without_touching_values(
    stage, http, vault, keys
):
    await keep(stage, vault, 3)
    before = await rows(stage)
    keys.write_text(f"{OLD}\n{NEW}\n")
    answer = await http.post("/secrets/rotate")
    assert answer.status_code == 200, answer.text
    old, new = MasterKeys.of([OLD, NEW]).by_id
    assert answer.json() == {
        "key": new,
        "keys": [old, new],
        "rewrapped": 3,
        "records": 3,
        "unreadable": 0,
        "unreadable_names": [],
    }
    after = await rows(stage)
    changed = {"key_id", "wrapped_key"}
    for one, other in zip(before, after, strict=True):
        assert {name for name in one if one[name] != other[name]} == changed
        assert (one["key_id"], other["key_id"]) == (old, new)
    keys.write_text(NEW)
    await values(Vault(stage.engine, KeySource(keys)), 3)
    again = await http.post("/secrets/rotate")
    assert (again.json()["rewrapped"], again.json()["records"]) == (0, 3)
    assert await rows(stage) == after


async def test_a_record_from_before_there_were_ids_opens_with_whichever_key_fits(
    stage, vault, keys
):
    await keep(stage, vault, 1)
    async with stage.engine.begin() as connection:
        await connection.execute(update(table).values(key_id=None))
    keys.write_text(f"{OLD}\n{NEW}\n")
    renewed = Vault(stage.engine, KeySource(keys))
    await values(renewed, 1)
    assert (await renewed.rotate()).rewrapped == 1
    keys.write_text(NEW)
    await values(Vault(stage.engine, KeySource(keys)), 1)


async def test_a_rotation_that_was_broken_off_goes_on_where_it_was(stage, vault, keys, monkeypatch):
    monkeypatch.setattr("gateway.vault._BATCH", 4)
    await keep(stage, vault, 10)
    keys.write_text(f"{OLD}\n{NEW}\n")
    async with stage.engine.begin() as connection:  # the seventh cannot be written
        await connection.execute(
            text(
                "CREATE FUNCTION gateway.refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'broken off'; END $$"
            )
        )
        await connection.execute(
            text(
                "CREATE TRIGGER refuse BEFORE UPDATE ON gateway.secrets FOR EACH ROW "
                "WHEN (NEW.name = 'KEY_0006') EXECUTE FUNCTION gateway.refuse()"
            )
        )
    with pytest.raises(Exception, match="broken off"):
        await vault.rotate()
    new = MasterKeys.of([NEW]).newest[0]
    assert [row["key_id"] == new for row in await rows(stage)] == [True] * 4 + [False] * 6
    await values(vault, 10)
    async with stage.engine.begin() as connection:
        await connection.execute(text("DROP TRIGGER refuse ON gateway.secrets"))
    rotated = await vault.rotate()
    assert (rotated.rewrapped, rotated.records) == (6, 10)
    await values(vault, 10)


async def test_two_rotations_at_once_wrap_each_record_once(stage, vault, keys, monkeypatch):
    monkeypatch.setattr("gateway.vault._BATCH", 3)
    await keep(stage, vault, 20)
    keys.write_text(f"{OLD}\n{NEW}\n")
    others = [Vault(stage.engine, KeySource(keys)) for _ in range(3)]
    done = await asyncio.gather(*(one.rotate() for one in others))
    assert sum(one.rewrapped for one in done) == 20
    await values(vault, 20)


async def test_what_opens_with_no_key_is_counted_named_and_left(stage, vault, keys, monkeypatch):
    monkeypatch.setattr("gateway.vault._BATCH", 2)
    await keep(stage, vault, 3)
    keys.write_text(NEW)
    await keep(stage, Vault(stage.engine, KeySource(keys)), 3, first=3)
    before = await rows(stage)
    keys.write_text(f"{NEW}\n{NEWEST}\n")
    rotated = await vault.rotate()
    assert (rotated.rewrapped, rotated.records, rotated.unreadable) == (3, 3, 3)
    assert rotated.unreadable_names == ["KEY_0000", "KEY_0001", "KEY_0002"]
    assert (await rows(stage))[:3] == before[:3]
    with pytest.raises(SecretUnreadableError):
        await vault.values("default", "admin", new_id(), ["KEY_0000"])


async def test_a_replica_takes_up_the_key_that_another_one_rotated_to(stage, vault, keys):
    await keep(stage, vault, 2)
    keys.write_text(f"{OLD}\n{NEW}\n")
    await Vault(stage.engine, KeySource(keys)).rotate()
    await values(vault, 2)


async def test_a_key_that_is_nowhere_is_looked_for_once(stage, keys, tmp_path):
    ran = tmp_path / "ran"
    program = f"open({str(ran)!r}, 'a').write('x'); print('{NEW}')"
    await keep(stage, Vault(stage.engine, KeySource(keys)), 1)
    other = Vault(stage.engine, KeySource(command=printing(tmp_path, program)))
    for _ in range(3):
        with pytest.raises(SecretUnreadableError):
            await other.values("default", "admin", new_id(), ["KEY_0000"])
    assert ran.read_text() == "xx"  # at the start, and for the key that was not known


async def as_member(stage, role, scopes=None):
    """The headers of somebody with a role in the workspace `default`, and a token cut to scopes."""
    await stage.person("somebody", default=role)
    token = await stage.token_of("somebody", scopes=scopes)
    return {"headers": {"Authorization": f"Bearer {token}"}}


@pytest.mark.parametrize(
    ("role", "scopes", "scope", "status"),
    [
        ("viewer", None, "user", 403),
        ("viewer", None, "workspace", 403),
        ("member", None, "user", 200),
        ("member", None, "workspace", 403),
        ("admin", None, "workspace", 200),
        ("admin", ["read", "secrets"], "user", 403),
        ("admin", ["read", "secrets"], "workspace", 200),
    ],
)
async def test_a_scope_is_written_with_its_own_permission(
    stage, http, vault, role, scopes, scope, status
):
    somebody = await as_member(stage, role, scopes)
    kept = await http.put("/secrets/KEY", json={"value": "hush", "scope": scope}, **somebody)
    assert kept.status_code == status, kept.text
    gone = await http.delete("/secrets/KEY", params={"scope": scope}, **somebody)
    assert gone.status_code == (204 if status == 200 else 403)


async def test_an_operator_alone_rotates(stage, http, vault):
    somebody = await as_member(stage, "owner")
    assert (await http.post("/secrets/rotate", **somebody)).status_code == 403
    assert (await http.post("/secrets/rotate")).status_code == 200


async def test_what_is_set_deleted_and_rotated_is_told_to_the_audit_without_a_value(
    stage, http, vault
):
    await http.put("/secrets/KEY", json={"value": "hush", "scope": "workspace"})
    await http.delete("/secrets/KEY", params={"scope": "user"})  # there is none: nothing is told
    await http.delete("/secrets/KEY", params={"scope": "workspace"})
    rotated = (await http.post("/secrets/rotate")).json()
    await stage.audited(3)
    told = await http.get("/audit")
    acts = [(one["act"], one["target"], one["details"]) for one in told.json()["items"]]
    assert acts == [
        ("secret-deleted", "KEY", {"scope": "workspace"}),
        ("secret-set", "KEY", {"scope": "workspace"}),
    ]
    told = await http.get("/system/audit", params={"workspace": "installation"})
    assert [(one["act"], one["target"]) for one in told.json()["items"]] == [
        ("master-key-rotated", rotated["key"])
    ]
    assert "hush" not in told.text
