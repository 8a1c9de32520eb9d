"""The Kubernetes API of the simulated cluster: what a client sees on the wire.

It decides status codes, Status objects, selectors, paging, watches and patches the way an API server does. It
refuses to move pods or nodes by itself: that is the work of the controllers beside it.
"""
