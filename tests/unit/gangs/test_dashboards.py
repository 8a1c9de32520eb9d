"""Where a dashboard may be asked: an object that a tenant writes must lead nowhere else."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from fleet.gangs.dashboards import Place, is_worth_asking, place_of, refusal
from fleet.gangs.form import Gang
from tests.gang_builders import an_object
from tests.unit.gangs.ray_scenes import a_ray_gang, ray_facts

LAB = [ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")]


def at(address: str, **facts: Any) -> Gang:
    return a_ray_gang(ray_facts(address=address, head_ready=True, **facts))


def place(address: str) -> Place:
    found = place_of(at(address))
    assert isinstance(found, Place), found
    return found


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("llm-head-svc.train.svc:8265", "http://llm-head-svc.train.svc:8265"),
        ("llm-head-svc.train.svc.cluster.local:9000", "http://llm-head-svc.train.svc.cluster.local:9000"),
        ("https://llm-head-svc.train.svc", "https://llm-head-svc.train.svc:8265"),
        ("http://llm-head-svc.train.svc:8265/../admin", "http://llm-head-svc.train.svc:8265"),
    ],
)
def test_the_service_of_its_head_is_a_place_and_its_own_door_alone(address: str, url: str) -> None:
    found = place(address)
    assert (found.url, found.service) == (url, True)
    assert refusal(found, ["10.96.4.7"], inside=True, allowed=[]) == ""


@pytest.mark.parametrize(
    "address",
    [
        "", "http://", "ftp://x.train.svc", "http://me:pw@x.train.svc", "http://[::1", "x.train.svc:99999",
        "http://x.train.svc/?a=b", "http://x.train.svc#f",
    ],
)  # fmt: skip
def test_what_is_no_address_is_said_and_not_asked(address: str) -> None:
    assert isinstance(place_of(at(address)), str)


@pytest.mark.parametrize(
    "address",
    [
        "llm-head-svc.other.svc:8265", "vault.kube-system.svc:8200", "example.com:80", "10.0.0.7:8265",
        "localhost:8265", "train.svc:8265", "a.train.svcx:8265", "a_b.train.svc:8265",
        "a.b.train.svc:8265", "10.0.0.7.train.svc.:80 ",
    ],
)  # fmt: skip
def test_what_is_no_service_of_its_own_namespace_is_refused(address: str) -> None:
    found = place_of(at(address))
    if isinstance(found, Place):
        assert not found.service
        assert not found.gets_token({"train", "other", "kube-system"})
        assert refusal(found, ["10.96.4.7"], inside=True, allowed=[]) != ""


BAD = [
    "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "0.0.0.1", "::", "169.254.169.254", "fe80::1", "fe80::1%eth0",
    "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
    "2002:7f00:1::", "8.8.8.8", "2606:4700::1111", "no address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", BAD)
def test_a_service_whose_name_means_another_place_is_not_asked(address: str) -> None:
    """A service may have any name for its target, and any address as its end."""
    found = place("llm-head-svc.train.svc:8265")
    assert refusal(found, [address], inside=True, allowed=[]) != ""
    assert refusal(found, ["10.96.4.7", address], inside=True, allowed=[]) != "", "one bad address of several"


@pytest.mark.parametrize("address", ["10.96.4.7", "172.20.1.1", "192.168.3.4", "100.64.1.2", "fd12:3456::7"])
def test_where_services_lie_is_asked_only_from_inside(address: str) -> None:
    found = place("llm-head-svc.train.svc:8265")
    assert refusal(found, [address], inside=True, allowed=[]) == ""
    assert refusal(found, [address], inside=False, allowed=[]) != ""
    assert refusal(found, [], inside=True, allowed=[]) != ""


def test_a_site_may_allow_networks_and_sends_no_token_there() -> None:
    found = place("http://127.0.0.1:8299/ray/")
    assert found.url == "http://127.0.0.1:8299/ray"
    assert refusal(found, ["127.0.0.1"], inside=False, allowed=LAB) == ""
    assert refusal(found, ["10.0.0.1"], inside=False, allowed=LAB) != ""
    assert refusal(place("http://[::1]:80"), ["::1"], inside=False, allowed=LAB) == ""
    assert not found.gets_token({"train", ""})


def test_a_token_goes_to_head_services_of_named_namespaces() -> None:
    found = place("llm-head-svc.train.svc:8265")
    assert found.gets_token({"train"}) and not found.gets_token({"other"}) and not found.gets_token(frozenset())


def test_the_clusters_own_word_goes_before_its_jobs() -> None:
    job = an_object("ray", "job", kind="RayJob", uid="uid-job",
                    ray=ray_facts(kind="RayJob", address="other-head-svc.train.svc:8265"))  # fmt: skip
    gang = a_ray_gang(ray_facts(address="llm-head-svc.train.svc:8265"), job, owners=("uid-job",))
    found = place_of(gang)
    assert isinstance(found, Place) and found.host == "llm-head-svc.train.svc"


def test_only_heads_that_are_up_are_asked() -> None:
    assert is_worth_asking(at("x"))
    assert not is_worth_asking(a_ray_gang(ray_facts(head_ready=False)))
    assert not is_worth_asking(a_ray_gang(ray_facts(head_ready=True), suspended=True, placed=0))
    assert not is_worth_asking(a_ray_gang(ray_facts()))
