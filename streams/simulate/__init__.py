"""The production core on a virtual clock: recorded and made workloads, the policies, and what they cost in waits."""
