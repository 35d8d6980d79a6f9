"""The production core on a virtual clock: recorded and made workloads, the policies, and what they cost in waits.

* `swf` and `openb` read traces; `made` makes a build farm's stream and the scene holds were invented for; `shaking` shakes either.
* `workload` is what a run gets: jobs and machines in the core's own terms.
* `policies` are configurations by name.
* `world` runs a workload: every arrival and end is a fact for `events.decide`, every placement it makes is taken.
* `recording` writes a run down as an exported log.
* `figures` are what a run comes to; `study` runs several and compares.
"""
