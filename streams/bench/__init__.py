"""Measurements, one module each; `headway bench NAME` runs their `run`, and `_rows.py` says what a row is."""
