import pytest

from pykbroker.coordination.transactions import states
from pykbroker.coordination.transactions.states import (
    ANSWERS,
    NUMBERS,
    TRANSITIONS,
    OnEnd,
    OnInit,
    OnPartition,
    TransactionState,
)
from tests.coordination.transactions.draw_states import PAGE, drawn


def test_the_documentation_draws_the_states_that_decide() -> None:
    page = PAGE.read_text()
    command = "python -m tests.coordination.transactions.draw_states"
    assert drawn(page) == page, f"run: {command}"


def test_every_state_has_a_row_and_can_be_reached() -> None:
    assert set(ANSWERS) == set(TransactionState)
    assert {it.goal for it in TRANSITIONS} == set(TransactionState)


def test_every_state_has_its_paragraph() -> None:
    paragraphs = (states.__doc__ or "").split("\n\n")[1:]
    assert {it.split(":")[0].strip() for it in paragraphs} == {it.value for it in TransactionState}


def test_state_numbers_in_the_log_are_those_of_apache_kafka() -> None:
    assert NUMBERS == {
        TransactionState.EMPTY: 0,
        TransactionState.ONGOING: 1,
        TransactionState.PREPARE_COMMIT: 2,
        TransactionState.PREPARE_ABORT: 3,
        TransactionState.COMPLETE_COMMIT: 4,
        TransactionState.COMPLETE_ABORT: 5,
        TransactionState.DEAD: 6,
        TransactionState.PREPARE_EPOCH_FENCE: 7,
    }


@pytest.mark.parametrize("state", TransactionState)
def test_responses_of_a_transaction_state_match_its_transitions(state: TransactionState) -> None:
    """The tables of results and of transitions are consistent."""
    answers = ANSWERS[state]
    goals = {it.goal for it in TRANSITIONS if it.origin is state}
    if state is TransactionState.PREPARE_EPOCH_FENCE:
        return  # the state ends immediately
    assert answers.may_expire == (TransactionState.DEAD in goals)
    can_be_given = TransactionState.EMPTY in goals
    assert can_be_given == (answers.init is OnInit.NEXT_EPOCH)
    can_be_fenced = TransactionState.PREPARE_EPOCH_FENCE in goals
    assert can_be_fenced == (answers.init is OnInit.ABORTS_THEN_RETRY)
    takes = {OnPartition.BEGINS_TRANSACTION, OnPartition.ADDED}
    assert (TransactionState.ONGOING in goals) == (answers.partition in takes)
    assert (TransactionState.PREPARE_COMMIT in goals) == (
        answers.first_end.commit is OnEnd.ENDS_TRANSACTION
    )
    ends = {OnEnd.ENDS_TRANSACTION, OnEnd.ENDS_EMPTY_TRANSACTION}
    assert (TransactionState.PREPARE_ABORT in goals) == (answers.first_end.abort in ends)
