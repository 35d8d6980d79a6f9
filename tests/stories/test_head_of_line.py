"""The eleven scenarios of the hold, by their names. Each has its one-line mutation in tests/mutations/hold.toml.

Every hold is made by an overtake, never by a call: a core frees and a new small action takes it past the big one that waits.
"""

import pytest

from events import events as e
from events.codec import canonical_requirements
from events.evolving.rows import demand_of
from tests.stories.crowds import arrive, end, full, names, overtake
from tests.stories.notation import (
    MAIN,
    advance,
    alive,
    configure,
    decline,
    drain,
    finish,
    gone,
    keepalive,
    queue,
    tick,
)
from tests.stories.story import Story


def held_after(seconds: int, **options: object):
    """A shortfall hold; small `after_s` values are for stories only."""
    return configure(hold={"kind": "shortfall", "after_s": seconds}, retain_completed_for_s=10_000, **options)


def holds(story: Story) -> list[e.Event]:
    kinds = (e.HoldMade, e.HoldMoved, e.HoldReleased, e.HoldNoCandidate, e.WorkerIdleCapped)
    return [event for event in story.every_event() if isinstance(event, kinds)]


def test_without_the_option_a_stream_of_small_actions_starves_a_large_one(story):
    story.given(full("a"), arrive("big", cpu=8))
    running = names("a")
    for number in range(1, 21):
        story.when(overtake(running.pop(0), f"s{number}"))
        assert story.told()[-1] == f"s{number} to a, overtaking big"
        assert story.waiting() == ["big"]
        running.append(f"s{number}")
    assert holds(story) == []


def test_after_the_wait_a_worker_is_held_and_drains_to_the_large_action(story):
    story.given(held_after(20), full("a"), full("b"), arrive("big", cpu=8), alive(8))
    story.when(overtake("a1", "s1"), overtake("b1", "s2"))  # at +10 s
    story.then(
        "a1 finished: completed",
        "s1 queued",
        "s1 to a, overtaking big",
        "b1 finished: completed",
        "s2 queued",
        "s2 to b, overtaking big",
    )
    story.given(alive(9)).when(overtake("b2", "s3"))  # at +20 s
    story.then("b2 finished: completed", "s3 queued", "s3 to b, overtaking big", "a held for big, overtaken by s3")
    made = story.last(e.HoldMade)
    assert made.waited_us == 20_000_000
    assert [(each.endpoint, each.shortfall_milli, each.running) for each in made.candidates] == [
        ("a", 666, 12),  # eight of twelve cores short, rounded down; `b` was used more recently
        ("b", 666, 12),
    ]

    story.when(finish("a2"), arrive("s4")).then("a2 finished: completed", "s4 queued")
    assert story.waiting() == ["big", "s4"]  # the held worker refuses it, the other one is full
    story.when(finish("b3")).then("b3 finished: completed", "s4 to b, overtaking big")
    story.when(end(names("a", 6, first=3)))
    story.then(*(f"{name} finished: completed" for name in names("a", 6, first=3)))
    assert story.free("a") == 7000
    story.when(finish("a9")).then("a9 finished: completed", "big to a", "hold of a for big released: placed")
    assert story.held() is None
    story.when(finish("a10"), arrive("s5")).then("a10 finished: completed", "s5 queued", "s5 to a")


def test_the_hold_is_released_when_the_action_leaves_the_queue(story):
    story.given(held_after(0, client_action_timeout_s=60), full("a"), arrive("big", cpu=8, attached=True))
    story.when(overtake("a1", "s1"))
    assert story.told()[-1] == "a held for big, overtaken by s1"
    story.when(arrive("s2"), arrive("s3"), finish("a2"))
    assert story.waiting() == ["big", "s2", "s3"]
    story.given().when(alive(60))  # nobody hears of big's client
    assert story.told()[-2:] == ["hold of a for big released: gone", "s2 to a"]
    assert (story.waiting(), story.held()) == (["s3"], None)


def test_a_worker_disconnect_moves_the_hold(story):
    story.given(held_after(0), full("a"), full("b"), arrive("big", cpu=8), overtake("b1", "s1"))
    assert story.held() == ("a", "big")
    story.when(gone("a"))
    assert story.told()[-2:] == ["a out: gone", "hold for big moved from a to b: worker_left"]
    assert story.waiting() == [*names("a"), "big"]  # requeued ones keep their place
    story.given()
    for ended, next_in_line in zip([*names("b", 11, first=2), "s1"], names("a"), strict=True):
        story.when(finish(ended)).then(f"{ended} finished: completed", f"{next_in_line} to b")
        assert story.held() == ("b", "big")
    story.when(end(names("a", 7))).then(*(f"{name} finished: completed" for name in names("a", 7)))
    story.when(finish("a8")).then("a8 finished: completed", "big to b", "hold of b for big released: placed")


def test_a_drain_of_the_held_worker_moves_the_hold(story):
    story.given(held_after(0), full("a"), full("b"), arrive("big", cpu=8), overtake("b1", "s1"))
    assert story.held() == ("a", "big")
    story.when(drain("a")).then("a drained", "hold for big moved from a to b: drained")
    story.given(arrive("s2"), end(names("a")))
    assert story.waiting() == ["big", "s2"]
    story.when(end(names("b", 7, first=2))).then(*(f"{name} finished: completed" for name in names("b", 7, first=2)))
    story.when(finish("b9")).then("b9 finished: completed", "big to b", "hold of b for big released: placed")


MEMORY = {"live_memory_veto": "memory_kib"}


def test_a_worker_that_declined_the_action_while_idle_is_not_held_for_it_again(story):
    story.given(
        held_after(0, **MEMORY),
        full("a", memory=100_000),
        full("b", memory=100_000),
        arrive("big", cpu=8, memory=8000),
        overtake("b1", "s1", memory=1000),
    )
    assert story.held() == ("a", "big")
    story.when(end(names("a", 8)))
    assert story.told()[-2:] == ["big to a", "hold of a for big released: placed"]
    story.given(end(names("a", 4, first=9))).when(decline("big", needed_kib=8000)).then("big requeued: declined")
    story.when(finish("b2"), advance(1), queue("s2", cpu=1, memory=1000))  # `a` is not heard: it is still paused
    assert story.told()[-2:] == ["s2 to b, overtaking big", "b held for big, overtaken by s2"]
    assert [(each.exclusion.name, each.workers) for each in story.last(e.HoldMade).excluded] == [("UNFIT", 1)]
    story.given().when(keepalive("a")).then()
    assert (story.waiting(), story.held()) == (["big"], ("b", "big"))
    story.when(arrive("s3", memory=1000)).then("s3 queued", "s3 to a, overtaking big")  # its pause is over
    # Busy again and with the most room by far, it is still not the one to drain.
    story.when(drain("b"))
    story.then("b drained", "hold of b for big released: unfit", "nobody to hold for big: 2 unfit")


def outgrow(name: str, memory: int):
    """The queued action asks for more from now on, as a requeue that raises its reservation leaves it.

    Done to the row: here a queued action's demand changes only while it runs, and what runs is not held for.
    """

    def step(story: Story) -> None:
        shard = story.rehearsal.shard
        instance = shard.instances[MAIN]
        operation = instance.by_client[name]
        instance.matcher.dequeue(operation)
        operation.requirement_id = len(shard.requirements) + 1
        raised = canonical_requirements({"cpu_millis": "8000", "memory_kib": str(memory)}.items())
        shard.requirements[operation.requirement_id] = raised
        operation.demand = demand_of(shard, instance, operation.requirement_id)
        instance.matcher.enqueue(operation)

    return step


def test_a_requeue_that_outgrows_the_held_worker_releases_the_hold(story):
    story.given(
        held_after(0), full("a", memory=100_000), arrive("big", cpu=8, memory=20_000), overtake("a1", "s1", memory=1000)
    )
    assert story.held() == ("a", "big")
    story.when(outgrow("big", 100_000), tick()).then()
    assert story.held() == ("a", "big")
    story.when(outgrow("big", 200_000), tick()).then("hold of a for big released: unfit")
    assert story.waiting() == ["big"]


def test_an_action_ahead_of_the_hold_takes_the_held_workers_room_first(story):
    story.given(held_after(20), full("a"), full("b"), arrive("big", cpu=8), alive(18), overtake("b1", "s1"))
    story.given(overtake("b2", "s2"))
    assert story.held() == ("a", "big")
    story.when(arrive("first", cpu=8, priority=1)).then("first queued")
    story.when(end(names("a", 7))).then(*(f"{name} finished: completed" for name in names("a", 7)))
    story.when(finish("a8")).then("a8 finished: completed", "first to a")
    assert (story.waiting(), story.held()) == (["big"], ("a", "big"))


def test_an_action_ahead_that_the_held_worker_cannot_run_takes_the_hold(story):
    story.given(
        held_after(0, supported_platform_properties={"zone": "exact"}),
        full("a", zone="east"),
        full("b", zone="west"),
        arrive("big", cpu=8),
        overtake("b1", "s1"),
    )
    assert story.held() == ("a", "big")
    story.given(arrive("first", cpu=8, priority=1, zone="west")).when(overtake("b2", "s2"))
    assert story.told()[-3:] == [
        "s2 to b, overtaking first",
        "hold of a for big released: superseded",
        "b held for first, overtaken by s2",
    ]
    assert story.held() == ("b", "first")


def test_workers_that_refuse_the_action_idle_are_not_drained_in_turn(story):
    story.given(
        held_after(0, **MEMORY),
        full("a", memory=100_000),
        full("b", memory=100_000),
        keepalive("a", 50_000),
        keepalive("b", 50_000),
        arrive("big", cpu=8, memory=60_000),
    )
    small = {"memory": 1000}
    story.when(overtake("b1", "s1", **small))
    assert story.told()[-1] == "a held for big, overtaken by s1"  # 50 000 free and 12 000 lent cover 60 000
    story.given(end(names("a", 11))).when(finish("a12")).then(
        "a12 finished: completed", "a capped at 50000 KiB while idle", "hold of a for big released: unfit"
    )
    story.when(overtake("b2", "s2", **small))
    # The idle worker takes the small one, past the big one; the busy one is held.
    assert story.told()[-2:] == ["s2 to a, overtaking big", "b held for big, overtaken by s2"]
    story.given(end([*names("b", 10, first=3)])).when(finish("s1")).then(
        "s1 finished: completed", "b capped at 50000 KiB while idle", "hold of b for big released: unfit"
    )
    refill = [f"r{number}" for number in range(1, 24)]
    story.given(*(arrive(name, **small) for name in refill))
    assert (story.free("a"), story.free("b"), story.waiting()) == (0, 0, ["big"])
    before = len(holds(story))
    running = ["s2", *refill]
    for number in (1, 2):
        story.given(overtake(running.pop(0), f"x{number}", **small))
    story.given(keepalive("a", 50_000), keepalive("b", 50_000))
    for number in (3, 4):
        story.given(overtake(running.pop(0), f"x{number}", **small))
    assert [event for event in holds(story)[before:] if isinstance(event, e.HoldMade)] == []

    on_a = [name for name in [*running, "x1", "x2", "x3", "x4"] if story.endpoints[name] == "a"]
    story.given(end(on_a)).when(keepalive("a", 70_000)).then("big to a")
    assert [event for event in holds(story)[before:] if isinstance(event, e.HoldMade)] == []


def test_a_batch_requeued_ahead_is_placed_in_order_without_a_hold(story):
    story.given(held_after(0), full("a"), full("b"), arrive("big", cpu=8), gone("a"))
    assert story.waiting() == [*names("a"), "big"]
    for ended, next_in_line in zip(names("b"), names("a"), strict=True):
        story.when(finish(ended)).then(f"{ended} finished: completed", f"{next_in_line} to b")
    story.when(end(names("a", 7))).then(*(f"{name} finished: completed" for name in names("a", 7)))
    story.when(finish("a8")).then("a8 finished: completed", "big to b")
    assert holds(story) == []


@pytest.mark.parametrize("hold", [None, {"kind": "shortfall", "after_s": 3600}])
def test_a_hold_that_is_off_or_never_due_changes_no_event(hold):
    def history(options: dict[str, object]) -> list[str]:
        story = Story(configured=False)
        story.given(configure(**options), full("a"), full("b"), arrive("big", cpu=8))
        story.given(overtake("a1", "s1"), drain("b"), overtake("a2", "s2"), gone("b"), end(names("a", 10, first=3)))
        story.given(queue("last", cpu=1), alive(30))
        return story.lines(story.every_event())

    assert history({} if hold is None else {"hold": hold}) == history({})
