"""What another configuration would have done: reads the record from a log, and plots what comes out. The model is projections/whatif."""
