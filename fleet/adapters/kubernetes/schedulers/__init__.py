"""The custom resources of gang schedulers and of the controllers behind them, one module for each system.

Each module decides how its kinds read in the form of `fleet.ports.gangs`, and refuses to judge. What is special to a
version is dealt with where the field is read; an unknown field is left alone, an odd one reads as not told.
"""
