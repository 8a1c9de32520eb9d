"""Exposition text of the fleet's exporters, made when somebody scrapes and at no other time."""
