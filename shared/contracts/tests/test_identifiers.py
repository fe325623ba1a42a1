"""Identifiers are derived alike everywhere, and positions survive being written down."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay_contracts.identifiers import (
    Slot,
    format_positions,
    new_id,
    new_run_name,
    parse_positions,
)


def test_ids_are_version_7_and_ordered_by_time():
    ids = [new_id() for _ in range(100)]
    assert {one.version for one in ids} == {7}
    assert ids == sorted(ids)


def test_a_run_has_a_human_name():
    assert len(new_run_name().split("-")) == 2


def test_a_slot_has_one_id_in_a_run_and_another_in_the_next():
    slot = Slot(agent=0, task="org/name", attempt=1)
    first, second = UUID(int=1), UUID(int=2)
    assert slot.id(first) == Slot(agent=0, task="org/name", attempt=1).id(first)
    assert slot.id(first) != slot.id(second)
    assert slot.id(first) != Slot(agent=0, task="org/name", attempt=2).id(first)
    assert Slot(agent=1, task="x", attempt=1).id(first) != Slot(agent=1, task="1/x", attempt=1).id(
        first
    )


@given(st.sets(st.integers(0, 500)))
def test_positions_come_back_as_they_were(positions):
    assert parse_positions(format_positions(positions)) == sorted(positions)


def test_positions_are_written_as_ranges():
    assert format_positions([9, 0, 1, 2, 4]) == "0-2,4,9"


def test_what_is_no_list_of_positions_is_refused():
    with pytest.raises(ValueError, match="invalid literal"):
        parse_positions("a-b")
