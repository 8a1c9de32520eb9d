"""The rules: pure judgement over the frame, kernel lines and what Kubernetes says of nodes.

Decides what is wrong and on what evidence. Refuses to know a database, a queue or a vendor's client: the observer
feeds it and stores what it says. Entry point: `engine.RuleEngine`.
"""
