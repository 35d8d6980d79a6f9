"""Measurements, one module each; `headway bench NAME` runs their `run`. A row is case, value, unit, limit, ratio.

`limit` is what the case must reach (or must not pass) and `ratio` how much of it is used up: above 1 the case missed it. Rows without a
limit are references taken in the same run.
"""
