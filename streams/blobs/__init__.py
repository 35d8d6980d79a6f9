"""Blobs: content named by its SHA-256 and size, on disk and over HTTP.

naming.py      digests as names, and of content
errors.py      what can go wrong with blobs
incoming.py    a blob on its way to its place: verified, then there at once
directory.py   a worker's blobs: within a budget, least recently used first out
serving.py     blobs over HTTP
fetching.py    the client of that
locating.py    who has a blob, as the locality map says
tiers.py       the stable store: a fast and a durable tier
stable.py      says which blobs are stable, and stops in the order that loses none
"""
