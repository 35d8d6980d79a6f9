"""A worker: takes the placements of its endpoint, runs their commands, reports how they ended.

protocol.py    the pure state machine: placements, commands, endings and timers in; facts to publish and runs to start out
capacity.py    the worker's own ledger
commands.py    what the scheduler says to one worker, typed
runtime.py     the state machine's I/O: reads the log for many endpoints at once, publishes, keeps alive, drains
outbox.py      facts on their way to the log: in order, again and again until acknowledged
executors.py   where runs happen: in processes of this machine, or simulated
process.py     one run as a process group of its own
tails.py       the last bytes of an output, secrets masked
secret_source.py   where the values of secrets come from
blobs.py           what this worker holds: served, reported, mirrored
blob_reports.py    reports of it as facts, pure
blob_runs.py       an executor that makes inputs present first
inputs.py          where inputs come from: own directory, peers, the stable store
folders.py         what a run reads and leaves
mirror.py          small stable blobs, taken unasked
action_results.py  results that are pinned for the action cache
memory.py      how much memory is free on this machine
warden.py      a process that ends the runs of a worker that was killed, and removes their directories
"""
