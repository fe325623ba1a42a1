"""Secrets are found in the forms in which programs write them."""

import base64
import html
import json
import re
import shlex
import time
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay_kernel.masking import Mask


def test_the_longest_value_is_replaced_first():
    assert Mask(["abcd", "abcdef"]).in_text("abcdef abcd") == "******** ********"


def test_a_value_too_short_to_hide_is_left():
    assert Mask(["x", ""]).in_text('{"a": "x"}') == '{"a": "x"}'


def test_a_value_is_found_in_json_addresses_and_headers():
    value = 's3cret/with "quotes" & more'
    mask = Mask([value])
    header = base64.b64encode(f"user:{value}:x".encode()).decode()
    for written in (value, json.dumps({"key": value}), f"http://h/?k={quote(value, safe='')}"):
        assert "s3cret" not in mask.in_text(written)
        assert "********" in mask.in_text(written)
    assert "********" in mask.in_text(f"Authorization: Basic {header}")


VALUE = "s3cret/with \"quotes\" & 'more' <ü> + 100% \\ \t end"

WRITTEN = {
    "as it is": VALUE,
    "JSON": json.dumps({"key": VALUE}),
    "JSON in UTF-8": json.dumps(VALUE, ensure_ascii=False),
    "JSON with slashes escaped": json.dumps(VALUE).replace("/", "\\/"),
    "JSON safe for HTML": json.dumps(VALUE)
    .replace("&", "\\u0026")
    .replace("<", "\\u003c")
    .replace(">", "\\u003e"),
    "JSON in JSON": json.dumps({"body": json.dumps({"key": VALUE})}),
    "Python": repr([VALUE]),
    "a shell": shlex.quote(VALUE),
    "a shell's xtrace": VALUE.replace("'", "'\\''"),
    "HTML": html.escape(VALUE),
    "an address": f"http://h/?k={quote(VALUE, safe='')}",
    "a path": f"http://h/{quote(VALUE)}",
    "a form": urlencode({"k": VALUE}),
    "a form in small letters": re.sub("%..", lambda code: code[0].lower(), quote_plus(VALUE)),
    "base64": base64.b64encode(VALUE.encode()).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(f"x{VALUE}".encode()).decode(),
    "base64 in lines": base64.encodebytes(f"KEY={VALUE}\n".encode() * 3).decode(),
    "hexadecimal": VALUE.encode().hex(),
    "lines of a terminal": "\r\n".join(VALUE[at : at + 10] for at in range(0, len(VALUE), 10)),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_a_value_is_found_however_programs_write_it(way):
    masked = Mask([VALUE]).in_text(f"before {WRITTEN[way]} after")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert "********" in masked
    left = masked.removeprefix("before ").removesuffix(" after").replace("*", "")
    assert len(left) < len(WRITTEN[way]) / 3 or way == "base64 in lines"
    for trace in ("s3cret", "quotes", "more", "end", VALUE.encode().hex()[:12]):
        assert trace not in left
    for before in range(3):
        code = base64.b64encode(bytes(before) + VALUE.encode()).decode()
        assert code[4:24] not in left.replace("\n", "")


def test_a_password_in_a_basic_authorization_header_is_found():
    header = base64.b64encode(b"user:sk-hush-hush-hush:x").decode()
    assert "********" in Mask(["sk-hush-hush-hush"]).in_text(f"Authorization: Basic {header}")


KEY = "sk-" + "".join(f"{number:03}" for number in range(0, 60))


@pytest.mark.parametrize("length", [92, 120, 182])
def test_what_is_left_of_a_long_value_where_a_text_was_cut_is_found(length):
    mask = Mask([KEY])
    assert len(KEY) == 183
    cut = f"said {KEY[:length]} ... [9 chars truncated] ... {KEY[-length:]} at last"
    assert mask.in_text(cut) == "said ******** ... [9 chars truncated] ... ******** at last"
    code = base64.b64encode(KEY.encode()).decode()
    half = len(code) * 2 // 3
    assert mask.in_text(f"{code[:half]} ...") == "******** ..."


def test_each_line_of_a_value_in_lines_is_found_and_the_value_with_its_end_cut_off():
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQ", "short", "-----END-----"]
    value = "\n".join(lines) + "\n"
    mask = Mask([value])
    indented = "\n".join(f"    | {line}" for line in lines)
    assert "MIIEvQ" not in mask.in_text(indented)
    assert "| short" in mask.in_text(indented)
    assert mask.in_text(f"<{value.strip()}>") == "<********>"
    assert mask.in_text(json.dumps(value)) == '"********"'


def test_values_that_overlap_and_repeat_leave_nothing():
    text = "abcabcabcabd" * 3
    for value in ("abcabc", "cabd", text, text[:20]):
        masked = Mask([value]).in_text(text)
        assert value not in masked
    assert Mask(["aaaa"]).in_text("aaaaaaaaa") == "********"
    assert Mask(["x" * 40]).in_text("x" * 400) == "********"


def test_bytes_that_are_no_text_stay_as_they_are_around_a_value():
    noise = bytes(range(256)) * 3
    masked = Mask(["sk-hush-hush"]).in_bytes(noise + b"sk-hush\n-hush" + noise)
    assert masked == noise + b"********" + noise


def test_a_large_file_of_a_values_beginnings_is_masked_in_reasonable_time():
    value = "ab" * 40
    began = time.process_time()
    masked = Mask([value]).in_bytes((b"ab" * 30 + b"\n") * 60_000)
    assert value.encode() not in masked
    assert time.process_time() - began < 20


@given(st.text(min_size=12, max_size=60), st.binary(max_size=20), st.binary(max_size=20))
def test_no_form_of_a_value_is_left(value, before, after):
    assume(len(value.replace("\r", "").replace("\n", "")) >= 4)
    mask = Mask([value])
    raw = value.encode()
    assert raw not in mask.in_bytes(before + raw + after) or raw in b"*" * 100
    encoded = base64.b64encode(before + raw + after)
    if len(raw) >= 12:
        assert mask.in_bytes(encoded) != encoded


@given(
    st.text(alphabet="abc", min_size=4, max_size=40),
    st.text(alphabet="abc\n", max_size=200),
    st.text(alphabet="abc\n", max_size=200),
)
def test_what_is_no_value_stays_and_no_value_is_left_wherever_lines_break(value, before, after):
    content = f"{before}{value}{after}".encode()
    masked = Mask([value]).in_bytes(content)
    assert value.encode() not in masked.translate(None, b"\n")
    kept = masked.split(b"********")
    assert content.startswith(kept[0])
    assert content.endswith(kept[-1])
    assert all(piece in content for piece in kept)


def test_a_file_is_rewritten_only_where_it_holds_a_value(tmp_path):
    with_value, without = tmp_path / "a", tmp_path / "b"
    with_value.write_bytes(b"\x00sk-hush-hush\xff")
    without.write_bytes(b"nothing")
    before = without.stat().st_mtime_ns
    mask = Mask(["sk-hush-hush"])
    mask.in_file(with_value)
    mask.in_file(without)
    assert with_value.read_bytes() == b"\x00********\xff"
    assert without.stat().st_mtime_ns == before
