"""Values of secrets from a file and from the environment."""

import pytest

from assay_client.dotenv import parse_dotenv, resolve_run_secrets
from assay_client.errors import InvalidInputError


def test_blank_lines_and_comments_are_skipped():
    assert parse_dotenv("\n  \n# A=1\n  # B=2\nC=3\n", "f") == {"C": "3"}


def test_export_is_accepted():
    assert parse_dotenv("export A=1\n  export  B = 2\n", "f") == {"A": "1", "B": "2"}


def test_one_matching_pair_of_quotes_is_taken_off():
    text = 'A=\'1\'\nB="2"\nC="\'3\'"\nD=\'4"\nE="\n'
    assert parse_dotenv(text, "f") == {"A": "1", "B": "2", "C": "'3'", "D": "'4\"", "E": '"'}


def test_a_value_may_hold_equals_signs_and_hashes():
    assert parse_dotenv("A=b=c #d\n", "f") == {"A": "b=c #d"}


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm():
    assert parse_dotenv("\ufeffA=1\r\nB='2'\r\n", "f") == {"A": "1", "B": "2"}


def test_a_bad_line_is_named_by_number_and_never_by_what_it_holds():
    text = "A=1\nhush-hush\nB=2\n9C=very-secret\n"
    with pytest.raises(InvalidInputError) as caught:
        parse_dotenv(text, "secrets.env")
    assert str(caught.value) == (
        "secrets.env, lines 2, 4: not NAME=value: a value is one line, quoted or not"
    )


def test_the_file_comes_before_the_environment_and_only_required_names_count():
    found = resolve_run_secrets(
        ["A", "B", "C"], {"A": "file", "X": "file"}, {"A": "env", "B": "env", "Y": "env"}
    )
    assert found == {"A": "file", "B": "env"}
