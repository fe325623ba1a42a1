"""Output is kept whole up to a limit, and beyond it in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from sandbox_runner.environments.captured import Captured


@given(st.lists(st.binary(max_size=50)))
def test_output_within_the_limit_is_kept_whole(chunks):
    captured = Captured(10_000)
    for chunk in chunks:
        captured.add(chunk)
    assert captured.text() == b"".join(chunks).decode(errors="replace")


@given(st.lists(st.text("ab", min_size=1, max_size=50), min_size=10))
def test_beyond_the_limit_the_beginning_and_the_end_are_kept(chunks):
    captured = Captured(100)
    for chunk in chunks:
        captured.add(chunk.encode())
    written, kept = "".join(chunks), captured.text()
    assert kept[:50] == written[:50]
    assert kept[-50:] == written[-50:] or len(written) < 100
    assert len(kept) <= 100 + 50 + len("\n[1000000 bytes left out]\n")


def test_a_letter_that_comes_in_two_parts_is_heard_whole():
    captured = Captured()
    assert captured.add("ä".encode()[:1]) == ""
    assert captured.add("ä".encode()[1:]) == "ä"
