"""Who did what: append-only rows in the same transaction as the change, one hash chain per cluster."""
