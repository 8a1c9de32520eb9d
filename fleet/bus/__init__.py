"""Outbox, dispatch after commit by task name, and live hints.

Decides when others learn of a change: after the commit, never before. Refuses to carry state: losing every message
costs latency and nothing else.
"""
