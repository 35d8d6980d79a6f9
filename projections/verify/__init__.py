"""`headway verify`: an independent second reading of a history, which says for each decision whether it follows.

Imports nothing of the decider or of the read side: only the wire contract, and its own files (a tidy test holds that).
"""
