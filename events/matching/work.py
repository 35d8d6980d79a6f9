"""Counted work: what the indexes looked at, exact and the same on every machine."""

from dataclasses import dataclass


@dataclass(slots=True)
class Work:
    """Counters that only grow; tests hold them flat in queue and fleet, a noisy clock could not.

    They are no part of any decision.
    """

    lines_asked: int = 0  # worker lines a class was offered to
    workers_probed: int = 0  # workers asked one by one before a tree was searched
    nodes_visited: int = 0  # nodes of worker trees compared in searches
    leaves_updated: int = 0  # worker slots brought up to date one by one
    slots_rebuilt: int = 0  # worker slots laid out again in bulk
    families_visited: int = 0  # families of classes a worker with new room was offered
    classes_updated: int = 0  # class heads brought up to date in a family
    class_searches: int = 0  # "which worker takes this class"
    fleet_regroupings: int = 0  # times the whole fleet was grouped anew
    buckets_scanned: int = 0  # distinct amounts of workers compared for the best fit
    held_searches: int = 0  # "what does the held worker take"
    backfills_scanned: int = 0  # classes and operations looked at for what ends before the held operation starts

    def total(self) -> int:
        """All counters added up."""
        return (
            self.lines_asked
            + self.workers_probed
            + self.nodes_visited
            + self.leaves_updated
            + self.slots_rebuilt
            + self.families_visited
            + self.classes_updated
            + self.class_searches
            + self.fleet_regroupings
            + self.buckets_scanned
            + self.held_searches
            + self.backfills_scanned
        )
