"""People at the command line: invited, signed in by a device's code, cut to what they may do."""

import json
import re
import subprocess
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.conftest import ASSAY

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def laptop(platform, tmp_path):
    """The environment of somebody elsewhere: the server's address, and nothing of its machine."""
    return {
        "ASSAY_DATA": str(tmp_path / "no-data"),
        "ASSAY_CONFIG": str(tmp_path / "config"),
        "ASSAY_SERVER": f"http://127.0.0.1:{platform.port}",
        "ASSAY_TOKEN": "",
    }


def browser_of(platform, code):
    """A browser in which a user has just set its password."""
    address = f"http://127.0.0.1:{platform.port}"
    browser = httpx.Client(base_url=address, headers={"Origin": address}, timeout=30)
    answer = browser.post("/sign-in/invitation", data={"code": code, "password": PASSWORD})
    assert answer.status_code == 303, answer.text
    return browser


def test_an_invited_user_signs_in_works_and_signs_out(platform, laptop):
    platform.run("workspace", "create", "lab")
    invited = platform.json(
        "user", "create", "ada", "--email", "ada@example.org", "--member-of", "lab"
    )
    refused = platform.run("run", "list", env=laptop, expect=1).stderr
    assert "assay login" in refused
    login = subprocess.Popen(
        [str(ASSAY), "login"],
        stdout=subprocess.PIPE,
        text=True,
        env={**platform.environment, **laptop},
    )
    assert login.stdout is not None
    shown = login.stdout.readline()
    (code,) = re.findall(r"code=([A-Z]{4}-[A-Z]{4})", shown)
    with closing(browser_of(platform, invited["invitation"]["code"])) as browser:
        form = {"user_code": code, "decision": "approve"}
        assert "is let in" in browser.post("/device", data=form).text
    printed = login.communicate(timeout=60)[0]
    assert login.returncode == 0
    assert "lab (member)" in printed
    me = platform.json("whoami", env=laptop)
    assert (me["user"], me["operator"]) == ("ada", False)
    assert platform.json("run", "list", env=laptop)["items"] == []
    elsewhere = platform.run("--workspace", "default", "run", "list", env=laptop, expect=1)
    assert "there is no workspace default that you can see" in elsewhere.stderr
    logins = Path(laptop["ASSAY_CONFIG"]) / "logins.json"
    assert logins.stat().st_mode & 0o077 == 0
    token = json.loads(logins.read_text())["servers"][laptop["ASSAY_SERVER"]]["token"]
    platform.run("logout", env=laptop)
    assert token not in logins.read_text()
    revoked = platform.run("run", "list", env={**laptop, "ASSAY_TOKEN": token}, expect=1)
    assert "revoked" in revoked.stderr


def test_a_token_for_a_pipeline_can_read_and_nothing_else(platform, laptop):
    made = platform.json("token", "create", "ci", "--scope", "read", "--only", "default")
    given = {**laptop, "ASSAY_TOKEN": made["token"]}
    assert platform.json("benchmark", "list", env=given)["items"]
    said = platform.run("benchmark", "sync", "demo", "--no-wait", env=given, expect=1).stderr
    assert "needs the permission `benchmarks`" in said
    printed = platform.run("token", "list").stdout
    assert "ci" in printed
    assert made["token"] not in printed
    platform.run("token", "revoke", made["id"])
    assert "revoked" in platform.run("benchmark", "list", env=given, expect=1).stderr


def test_members_are_looked_after_and_everything_is_in_the_audit(platform, laptop):
    platform.run("workspace", "create", "team")
    platform.run("user", "create", "bob", "--email", "bob@example.org")
    platform.run("workspace", "set-member", "team", "bob", "--role", "admin")
    assert "bob" in platform.run("workspace", "members", "team").stdout
    last = platform.run("workspace", "remove-member", "team", "admin", expect=1)
    assert "needs an owner" in last.stderr
    platform.run("user", "disable", "bob")
    platform.run("workspace", "remove", "team", "--yes")
    acts = [one["act"] for one in platform.json("audit", "--installation")["items"]]
    assert acts[:5] == [
        "workspace-removed",
        "user-changed",
        "member-set",
        "user-created",
        "workspace-created",
    ]
    assert "team" not in {one["name"] for one in platform.json("workspace", "list")["items"]}
