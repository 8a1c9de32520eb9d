"""Pages and API of gangs and queues."""
