"""The observer: one process per cluster that sees, judges and writes down.

Decides how watches, scrapes and pushes become rows, within one lease per cluster. Refuses to act on a cluster: what is
to be done is written as a plan, and workers do it.
"""
