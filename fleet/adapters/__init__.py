"""One folder per foreign system, each an implementation of a port.

Decides nothing about the fleet: an adapter translates a port's verbs to a vendor's protocol and the vendor's failures
to `fleet.ports.errors`. Refuses Django, policy, retries of writes, and knowledge of any other adapter.
"""
