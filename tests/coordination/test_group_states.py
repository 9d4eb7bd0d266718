from pykbroker.coordination.groups import classic_state
from pykbroker.coordination.groups.classic_state import ANSWERS, TRANSITIONS, GroupState
from tests.coordination.draw_group_states import PAGE, drawn


def test_the_documentation_draws_the_states_that_decide() -> None:
    page = PAGE.read_text()
    assert drawn(page) == page, "run: python -m tests.coordination.draw_group_states"


def test_every_state_has_a_row_and_can_be_reached() -> None:
    assert set(ANSWERS) == set(GroupState)
    assert {it.goal for it in TRANSITIONS} | {GroupState.EMPTY} == set(GroupState)


def test_every_state_has_its_paragraph() -> None:
    paragraphs = (classic_state.__doc__ or "").split("\n\n")[1:]
    assert [it.split(":")[0].strip() for it in paragraphs] == [it.value for it in GroupState]
