"""What each event changes in the rows, one module per concern; `events.evolve` dispatches to them."""
