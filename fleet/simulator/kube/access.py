"""Who calls the API server and what they may do.

It decides between the two credentials of the simulated cluster: one reads, one acts. It refuses anything without a
known bearer token, and can be told to drop a right or to let the tokens expire.
"""

from dataclasses import dataclass, field

from fleet.simulator.kube.errors import forbidden, unauthorized
from fleet.simulator.kube.kinds import Kind

READER = "system:serviceaccount:muster:reader"
ACTOR = "system:serviceaccount:muster:actor"
READ_VERBS = ("get", "list", "watch")


@dataclass(slots=True)
class Access:
    """The tokens, and the rights taken away while the fleet runs ("patch nodes")."""

    read_token: str
    act_token: str
    expired: bool = False
    denied: set[str] = field(default_factory=set)

    def user(self, authorization: str) -> str:
        scheme, _, token = authorization.partition(" ")
        known = {self.read_token: READER, self.act_token: ACTOR}
        if scheme.lower() != "bearer" or token.strip() not in known or self.expired:
            raise unauthorized()
        return known[token.strip()]

    def allows(self, user: str, verb: str, resource: str) -> bool:
        if f"{verb} {resource}" in self.denied:
            return False
        if resource == "selfsubjectaccessreviews":
            return True
        return user == ACTOR or verb in READ_VERBS

    def check(self, user: str, verb: str, kind: Kind, sub: str, namespace: str, name: str) -> None:
        resource = f"{kind.plural}/{sub}" if sub else kind.plural
        if not self.allows(user, verb, resource):
            raise forbidden(user, verb, kind, sub, namespace, name)
