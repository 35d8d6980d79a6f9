"""Edges: what the core asks of the world by an event, and how the world answers by facts.

The core does no I/O. Where it needs something from outside it says so in an event, an edge does the looking up, and the answer comes
back as a fact like any other; replaying the events asks nobody anything.

following.py   the events that edges act on, in order, from the first one of the shard
cache.py       pure: the built-in action cache, a fold of results that stand in the log
forwards.py    pure: which operations stand with another scheduler, and what each log knows of that
upstream.py    hands these operations to the other scheduler and brings back what becomes of them
running.py     the edges of one shard, and of several in one process
hints.py       resource hints from a file, once or whenever it changes

An edge keeps nothing. It reads its shard's events from the first one at every start and then knows what is still owed: which
look-up was not answered, which operation stands elsewhere. Every answer may come twice, from two processes or from one that died
between publishing and knowing it: the core takes the first and ignores the others with a counted reason.
"""
