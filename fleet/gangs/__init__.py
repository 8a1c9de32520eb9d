"""Who waits: gangs and queues in one normal form."""
