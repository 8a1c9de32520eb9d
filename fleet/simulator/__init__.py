"""A simulated GPU fleet that speaks the real wire protocols over HTTP.

It decides how the pretended data centre behaves: nodes, pods, exporters, kernel logs, BMCs and the physics of
their faults. It refuses to know anything about the product: it imports nothing of the domain and no Django, so
that whatever works against it works because of the protocol and not because of shared code.
"""
