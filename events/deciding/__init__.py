"""What each fact causes, one module per concern; `events.decide` dispatches to them."""
