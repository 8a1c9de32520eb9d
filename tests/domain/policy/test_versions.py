"""Versions of the policy: what tightens holds at once, what loosens waits for another person, and all of it is kept."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster
from fleet.policy import asking, selectors, versions
from fleet.policy.document import Policy, text_of
from fleet.policy.document_file import BadPolicy
from fleet.policy.models import Approval, Cap, PolicyVersion, Window
from tests.builders import T0, a_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster(db: None) -> Cluster:
    return a_cluster("seoul")


def written(old: str, new: str) -> Policy:
    """The policy in force with one piece of its text replaced."""
    text = text_of(versions.current())
    assert old in text, text
    return versions.read(text.replace(old, new), "policy.yaml")


def rack_cap(cluster: Cluster) -> int | None:
    caps = {(cap.kind, cap.scope): cap for cap in selectors.caps_of(cluster.pk)}
    return caps["in_flight", "rack"].limit(100)


TIGHTER, LOOSER = "in_flight: {fleet: 5%, rack: 1,", "in_flight: {fleet: 5%, rack: 9,"
NOW_IN_FORCE = "in_flight: {fleet: 5%, rack: 2,"


def test_a_tightening_holds_at_once_and_the_history_tells_who_and_why(cluster: Cluster) -> None:
    row = versions.propose(written(NOW_IN_FORCE, TIGHTER), "ann", "rack r07 runs hot", T0)
    assert rack_cap(cluster) == 1 and row.applied_at == T0
    first, second = PolicyVersion.objects.order_by("pk")
    assert (first.author, first.reason) == ("muster", "Found in force.")
    assert (second.author, second.reason, second.base) == ("ann", "rack r07 runs hot", first.text)
    assert second.changes == [
        {"cluster": "", "what": "caps.in_flight.rack", "old": "2", "new": "1", "loosens": False, "size": 0}
    ]
    assert "-    in_flight: {fleet: 5%, rack: 2, leaf: 3}" in versions.diff_of(second.base, second.text)
    entry = AuditRow.objects.get(action="policy.apply")
    assert (entry.actor, entry.detail["reason"]) == ("ann", "rack r07 runs hot")
    assert text_of(versions.current()) == second.text


def test_a_loosening_waits_for_another_person(cluster: Cluster) -> None:
    row = versions.propose(written(NOW_IN_FORCE, LOOSER), "ann", "we trust it now", T0)
    assert rack_cap(cluster) == 2 and row.applied_at is None
    asked = Approval.objects.get()
    assert (asked.kind, asked.subject, asked.requested_by) == ("loosen", row.subject, "ann")
    assert asked.summary["loosens"][0]["what"] == "caps.in_flight.rack"
    with pytest.raises(asking.VoteRefused, match="Another person"):
        versions.vote(row.pk, "ann", True, "", T0)
    assert rack_cap(cluster) == 2
    assert versions.vote(row.pk, "ben", True, "", T0 + timedelta(hours=1)).allowed
    assert rack_cap(cluster) == 9
    assert PolicyVersion.objects.get(pk=row.pk).applied_at == T0 + timedelta(hours=1)


def test_a_change_that_tightens_and_loosens_waits_as_a_whole(cluster: Cluster) -> None:
    text = text_of(versions.current()).replace("hold: {fleet: 20%}", "hold: {fleet: 10%}")
    versions.propose(versions.read(text.replace(NOW_IN_FORCE, LOOSER), "x"), "ann", "both", T0)
    assert rack_cap(cluster) == 2 and Cap.objects.get(kind="hold").percent == 20


def test_an_approval_is_for_the_ground_that_it_was_asked_on(cluster: Cluster) -> None:
    """What tightened meanwhile must not be undone by a yes to something older."""
    loose = versions.propose(written(NOW_IN_FORCE, LOOSER), "ann", "more", T0)
    versions.propose(written("hold: {fleet: 20%}", "hold: {fleet: 10%}"), "ben", "less", T0)
    with pytest.raises(asking.VoteRefused):
        versions.vote(loose.pk, "eve", True, "", T0)
    assert rack_cap(cluster) == 2 and Cap.objects.get(kind="hold").percent == 10
    assert Approval.objects.get().state == "withdrawn"


def test_tables_that_other_hands_changed_end_an_approval_and_become_a_version(cluster: Cluster) -> None:
    loose = versions.propose(written(NOW_IN_FORCE, LOOSER), "ann", "more", T0)
    Cap.objects.filter(kind="hold").update(percent=3)
    with pytest.raises(asking.VoteRefused, match="changed since"):
        versions.vote(loose.pk, "ben", True, "", T0)
    versions.propose(written(NOW_IN_FORCE, TIGHTER), "ann", "less", T0)
    found = PolicyVersion.objects.get(reason__contains="other means")
    assert "hold: {fleet: 3%}" in found.text


def test_a_rejection_takes_a_reason_and_changes_nothing(cluster: Cluster) -> None:
    row = versions.propose(written(NOW_IN_FORCE, LOOSER), "ann", "more", T0)
    with pytest.raises(versions.Refused):
        versions.vote(row.pk, "ben", False, " ", T0)
    versions.vote(row.pk, "ben", False, "not before the holidays", T0)
    assert rack_cap(cluster) == 2 and Approval.objects.get().state == "rejected"
    with pytest.raises(asking.VoteRefused):
        versions.vote(row.pk, "eve", True, "", T0)


def test_the_author_takes_a_request_back() -> None:
    row = versions.propose(written(NOW_IN_FORCE, LOOSER), "ann", "more", T0)
    versions.withdraw(row.pk, "ann", "wrong number", T0)
    assert Approval.objects.get().state == "withdrawn"
    with pytest.raises(versions.Refused):
        versions.withdraw(row.pk, "ann", "again", T0)


@pytest.mark.parametrize(("reason", "wanted"), [(" ", TIGHTER), ("why not", NOW_IN_FORCE)])
def test_no_reason_and_no_difference_are_refused(reason: str, wanted: str) -> None:
    with pytest.raises(versions.Refused):
        versions.propose(written(NOW_IN_FORCE, wanted), "ann", reason, T0)
    assert not PolicyVersion.objects.exists()


def test_who_may_change_one_cluster_changes_no_other(cluster: Cluster) -> None:
    own = versions.read(text_of(versions.current()) + "clusters: {seoul: {caps: {hold: {rack: 1}}}}", "x")
    with pytest.raises(versions.Refused, match="of seoul"):
        versions.propose(own, "ann", "mine", T0, frozenset({"busan"}))
    with pytest.raises(versions.Refused, match="every cluster"):
        versions.propose(written(NOW_IN_FORCE, TIGHTER), "ann", "mine", T0, frozenset({"seoul"}))
    versions.propose(own, "ann", "mine", T0, frozenset({"seoul"}))
    assert Cap.objects.get(cluster_id=cluster.pk).absolute == 1


def test_everything_that_a_document_says_is_in_the_guards_tables(cluster: Cluster) -> None:
    text = """
version: 1
default:
  caps: {take_out: {tenant: 10%}}
  rates: {fleet: {verbs: 7, within: 30m}}
  floors: {tenant: 80%}
  breaker: {percent: 10}
  windows: [{kind: freeze, name: sale, zone: Asia/Seoul, days: [fri], start: "18:00", lasts: 6h, pool: h100}]
clusters:
  seoul: {caps: {take_out: {tenant: 2}}, breaker: {percent: 5}}
approvals: {bulk: {people: 3}}
roles: {operator: 10}
"""
    row = versions.propose(versions.read(text, "policy.yaml"), "ann", "all of it", T0)
    assert row.applied_at is None, "caps are missing in it"
    versions.vote(row.pk, "ben", True, "", T0)
    assert versions.current() == versions.read(text, "policy.yaml")
    rules = {(cap.kind, cap.scope): cap for cap in selectors.caps_of(cluster.pk)}
    assert (rules["take_out", "tenant"].absolute, rules["rate", "fleet"].window) == (2, 1800)
    assert selectors.breaker_rule(cluster.pk).percent == 5 and selectors.breaker_rule(0).percent == 10
    assert [window.name for window in selectors.windows_of(cluster.pk)] == ["sale"]
    assert asking.rule("bulk") == (3, 60) and selectors.role_caps() == {"operator": 10}


def test_windows_that_stay_keep_who_made_them() -> None:
    Window.objects.create(
        kind="freeze", name="old", zone="UTC", start=time(1), minutes=60, created_by="eve", created_at=T0
    )
    versions.propose(written(NOW_IN_FORCE, TIGHTER), "ann", "less", T0)
    assert Window.objects.get().created_by == "eve"


def test_clusters_that_left_keep_their_rows_out_of_the_document(cluster: Cluster) -> None:
    gone = a_cluster("gone", removed_at=T0)
    Cap.objects.create(cluster_id=gone.pk, kind="hold", scope="rack", absolute=1)
    versions.propose(written(NOW_IN_FORCE, TIGHTER), "ann", "less", T0)
    assert Cap.objects.filter(cluster_id=gone.pk).count() == 1
    with pytest.raises(BadPolicy, match="No cluster 'gone'"):
        versions.read(text_of(versions.current()) + "clusters: {gone: {}}", "x")
