"""The protocols and frozen value types in which the domain speaks to the outside world.

Decides the vocabulary between the domain and its adapters. Refuses to know any vendor, Django or transport:
nothing here performs I/O.
"""
