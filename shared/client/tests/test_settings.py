"""Where the server, the workspace and the token come from."""

import json

import platformdirs
import pytest

from assay_client.errors import InvalidInputError
from assay_client.logins import Login, Logins, logins_file, write_logins
from assay_client.settings import ClientSettings, checked_address


@pytest.fixture
def data(tmp_path):
    """A data folder as `assay up` leaves it."""
    (tmp_path / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:9999"}))
    (tmp_path / "admin-token").write_text("local-admin\n")
    return tmp_path


def test_without_anything_the_default_address_is_meant_and_no_workspace(tmp_path):
    settings = ClientSettings.resolve({"ASSAY_DATA": str(tmp_path)})
    assert settings == ClientSettings("http://127.0.0.1:8400", None, tmp_path, None)


def test_what_assay_up_wrote_down_gives_address_and_token(data):
    settings = ClientSettings.resolve({"ASSAY_DATA": str(data)})
    assert (settings.server, settings.token) == ("http://127.0.0.1:9999", "local-admin")


def test_the_environment_comes_before_what_is_written_down_and_options_before_both(data):
    environment = {
        "ASSAY_DATA": str(data),
        "ASSAY_SERVER": "http://127.0.0.1:1",
        "ASSAY_WORKSPACE": "team",
        "ASSAY_TOKEN": "mine",
    }
    settings = ClientSettings.resolve(environment)
    assert settings == ClientSettings("http://127.0.0.1:1", "team", data, "mine")
    settings = ClientSettings.resolve(environment, "http://127.0.0.1:2", "other")
    assert (settings.server, settings.workspace) == ("http://127.0.0.1:2", "other")


def test_a_data_folder_that_is_named_comes_before_the_usual_server_and_the_users_own_after(
    data, tmp_path, monkeypatch
):
    config = tmp_path / "config"
    usual = Logins().having("http://127.0.0.1:7777", Login(workspace="lab"))
    write_logins(logins_file({"ASSAY_CONFIG": str(config)}), usual)
    named = ClientSettings.resolve({"ASSAY_CONFIG": str(config), "ASSAY_DATA": str(data)})
    assert named == ClientSettings("http://127.0.0.1:9999", None, data, "local-admin")
    monkeypatch.setattr(platformdirs, "user_data_path", lambda _: data)
    own = ClientSettings.resolve({"ASSAY_CONFIG": str(config)})
    assert (own.server, own.workspace) == ("http://127.0.0.1:7777", "lab")


def test_the_local_administrators_token_never_goes_to_another_machine(data):
    environment = {"ASSAY_DATA": str(data), "ASSAY_SERVER": "https://assay.example"}
    assert ClientSettings.resolve(environment).token is None


def test_the_token_does_not_show_when_settings_are_printed(data):
    assert "local-admin" not in repr(ClientSettings.resolve({"ASSAY_DATA": str(data)}))


def test_a_damaged_server_file_is_as_good_as_none(data):
    for damage in ("", "[]", '{"url": 3}', '{"url": "ftp://x"}', "null"):
        (data / "server.json").write_text(damage)
        settings = ClientSettings.resolve({"ASSAY_DATA": str(data)})
        assert settings.server == "http://127.0.0.1:8400"


def test_an_address_without_a_scheme_is_http():
    assert checked_address("assay.example:8400/") == "http://assay.example:8400"


@pytest.mark.parametrize("address", ["ftp://x", "http://", "http://x:port", "http://u:p@x", "//"])
def test_an_address_that_cannot_be_used_is_refused_without_repeating_it(address):
    with pytest.raises(InvalidInputError) as caught:
        checked_address(address)
    assert "u:p" not in str(caught.value)
