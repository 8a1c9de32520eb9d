"""Conditions that keep gangs from starting or let them die, each with the numbers that show it.

Decides by one exact test for each condition, on values that others have read. Refuses sentences, which
`readmodels.gang_words` has, a clock and a database: what must be remembered over time is handed in.
"""
