"""Queue order beyond priority and time: fair share between clients or invocations, and aging (Q1-Q4 and beyond); both off by default."""

import pytest

from events import events as e
from tests.stories.notation import (
    advance,
    alive,
    cancel,
    configure,
    connect,
    finish,
    gone,
    queue,
    reprioritise,
    restart,
    submit,
)


@pytest.fixture
def fair(story):
    """Shares are equal between clients; a worker with one core comes when the queue is made."""
    return story.given(configure(fair_share={"between": "client"}))


def bulk(client, count, prefix=None, **asked):
    """`count` actions of one client."""
    return [submit(f"{prefix or client}{number}", cpu=1, client_id=client, **asked) for number in range(1, count + 1)]


def served(story, count):
    """The names of the next `count` operations in the order in which a single slot serves them."""
    names = []
    for _ in range(count):
        name = story.names[story.last(e.OperationDispatched).operation_id]
        names.append(name)
        story.given(finish(name))
    return names


def test_by_default_the_first_come_is_the_first_served(story):
    story.given(*bulk("anna", 3), *bulk("ben", 2), connect("w1", cpu=1))
    assert served(story, 5) == ["anna1", "anna2", "anna3", "ben1", "ben2"]
    assert story.last(e.OperationQueued).order is None


def test_two_clients_take_turns_however_many_actions_one_has(fair):
    fair.given(*bulk("anna", 6), *bulk("ben", 3), connect("w1", cpu=1))
    assert served(fair, 9) == ["anna1", "ben1", "anna2", "ben2", "anna3", "ben3", "anna4", "anna5", "anna6"]


def test_whoever_comes_later_has_no_claim_on_what_was_served_before(fair):
    fair.given(*bulk("anna", 9), connect("w1", cpu=1))
    served(fair, 4)
    fair.given(*bulk("ben", 3))
    assert served(fair, 6)[:5] == ["anna5", "ben1", "anna6", "ben2", "anna7"]


def test_longer_actions_use_up_a_share_sooner(fair):
    fair.given(*bulk("anna", 3, expected_s=30), *bulk("ben", 6, expected_s=10), connect("w1", cpu=1))
    assert served(fair, 8) == ["anna1", "ben1", "ben2", "ben3", "anna2", "ben4", "ben5", "ben6"]


def test_wider_actions_use_up_a_share_sooner(fair):
    fair.given(submit("wide1", cpu=4, client_id="anna"), submit("wide2", cpu=4, client_id="anna"), *bulk("ben", 5))
    fair.given(connect("w1", cpu=4, inflight=1))
    assert served(fair, 6) == ["wide1", "ben1", "ben2", "ben3", "ben4", "wide2"]


def test_parts_of_a_core_count_as_one(fair):
    fair.given(submit("a", properties={"cpu_millis": "1500"}, client_id="anna"))
    assert fair.last(e.OperationQueued).order.cost_us == 2_000_000
    fair.given(submit("b", properties={"cpu_millis": "10"}, client_id="anna"))
    assert fair.last(e.OperationQueued).order.cost_us == 1_000_000


def test_fairness_works_inside_equal_priority(fair):
    fair.given(*bulk("anna", 2), *bulk("ben", 2, priority=1), connect("w1", cpu=1))
    assert served(fair, 4) == ["ben1", "ben2", "anna1", "anna2"]


def test_shares_may_be_those_of_invocations(story):
    story.given(configure(fair_share={"between": "invocation"}))
    story.given(*(submit(f"x{n}", client_id="anna", invocation_id="x") for n in (1, 2)))
    story.given(submit("y1", client_id="anna", invocation_id="y"), connect("w1", inflight=1))
    assert served(story, 3) == ["x1", "y1", "x2"]


def test_the_event_says_whose_share_it_was_and_what_it_cost(fair):
    fair.given(*bulk("anna", 2, expected_s=3))
    order = fair.last(e.OperationQueued).order
    assert (order.priority, order.time_us, order.share_of, order.cost_us) == (0, 3_000_000, "anna", 3_000_000)


def test_a_requeue_keeps_its_place_in_the_share(fair):
    fair.given(*bulk("anna", 3), *bulk("ben", 3), connect("w1", cpu=1), gone("w1"), connect("w1", cpu=1, boot=2))
    assert served(fair, 4) == ["anna1", "ben1", "anna2", "ben2"]


def test_what_is_taken_back_unserved_costs_nothing(fair):
    """A client that cancels a large build and starts it again does not stand behind everybody for the first one."""
    fair.given(
        *bulk("anna", 50),
        *(cancel(f"anna{n}") for n in range(1, 51)),
        *bulk("ben", 3),
        *bulk("anna", 3, prefix="again"),
    )
    fair.given(connect("w1", cpu=1))
    assert served(fair, 6) == ["ben1", "again1", "ben2", "again2", "ben3", "again3"]


def test_shares_outlive_a_restart(fair):
    fair.given(*bulk("anna", 6), connect("w1", cpu=1))
    served(fair, 2)
    fair.given(restart(), *bulk("ben", 2))
    assert served(fair, 5) == ["anna3", "ben1", "anna4", "ben2", "anna5"]


def test_shares_that_time_has_passed_are_forgotten(fair):
    fair.given(configure(fair_share={"between": "client"}, retain_completed_for_s=1), connect("w1", cpu=1))
    fair.given(*bulk("anna", 1), finish("anna1"), *bulk("ben", 2), finish("ben1"), finish("ben2"), alive(3))
    fair.given(*bulk("cleo", 1), finish("cleo1"), alive(3))
    assert list(fair.rehearsal.shard.instances["main"].shares.tags) == ["ben", "cleo"]


def test_a_new_priority_keeps_the_share(fair):
    fair.given(*bulk("anna", 2), reprioritise("anna2", 7))
    order = fair.last(e.OperationReprioritised).order
    assert (order.priority, order.time_us, order.share_of) == (7, 1_000_000, "anna")
    fair.given(connect("w1", cpu=1))
    assert served(fair, 2) == ["anna2", "anna1"]


@pytest.fixture
def aging(story):
    """A minute of waiting is worth one step of priority."""
    return story.given(configure(aging_s=60))


def test_waiting_is_worth_priority(aging):
    aging.given(queue("old"), advance(121), queue("young", priority=2), queue("younger", priority=3))
    assert aging.waiting() == ["younger", "old", "young"]


def test_aging_places_it_once_and_the_event_says_where(aging):
    aging.given(queue("a", priority=2))
    order = aging.last(e.OperationQueued).order
    assert (order.priority, order.time_us, order.share_of, order.cost_us) == (0, aging.now_us - 120_000_000, "", 0)


def test_without_aging_priority_is_absolute(story):
    story.given(queue("old"), advance(1000), queue("young", priority=1))
    assert story.waiting() == ["young", "old"]


def test_under_aging_a_new_priority_counts_from_when_it_was_queued(aging):
    aging.given(queue("a"), advance(30), queue("b"), advance(60), reprioritise("b", 1))
    assert aging.last(e.OperationReprioritised).order.time_us == aging.now_us - 120_000_000
    assert aging.waiting() == ["b", "a"]


@pytest.mark.parametrize("priority", [-(2**31), 2**31 - 1])
def test_under_aging_the_farthest_priorities_keep_their_order(story, priority):
    story.given(configure(aging_s=10**9), queue("a"), queue("b", priority=priority), restart())
    assert story.waiting() == (["b", "a"] if priority > 0 else ["a", "b"])


def test_another_configuration_counts_for_what_comes_after_it(aging):
    aging.given(queue("a", priority=1), configure()).given(queue("b", priority=2), queue("c"))
    assert aging.waiting() == ["b", "a", "c"]
