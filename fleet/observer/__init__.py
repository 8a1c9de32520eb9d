"""The process that watches one cluster: watches, scrapes, receives, judges, opens incidents. It never acts on a node."""
