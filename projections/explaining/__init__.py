"""Why an operation waits now and what a hold is for, told from rows."""
