"""What a site says of single codes, and what the words of NVLink faults mean."""

from __future__ import annotations

import csv

import pytest

from fleet.health.rules import codes, dcgmcodes, nvlink, xid
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.findings import EXPLAINED_BY
from fleet.health.rules.siterules import parse
from tests.unit.health_rules.world import World

SXID = "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): {code}, {severity}, Link 12 something went wrong"
SITE = """version: 1
codes:
  xid:
    63: {severity: unhealthy, action_class: reset_gpu}
    31: {severity: none}
    43: {severity: degraded, action_class: inspect}
  sxid:
    10003: {severity: none}
pools:
  old:
    codes:
      xid: {63: {severity: degraded, action_class: monitor}}
"""


def told_by(world: World, code: int) -> list[tuple[str, str]]:
    return [(edge.severity, edge.action_class) for edge in world.xid(code)]


@pytest.mark.parametrize(
    ("pool", "code", "says"),
    [
        ("", 63, [("unhealthy", "reset_gpu")]),
        ("new", 63, [("unhealthy", "reset_gpu")]),
        ("old", 63, [("degraded", "monitor")]),
        ("", 31, []),
        ("", 43, [("degraded", "inspect")]),
        ("", 45, []),
        ("", 79, [("unhealthy", "reboot_node")]),
    ],
)
def test_the_narrowest_word_on_a_code_holds(pool: str, code: int, says: list[tuple[str, str]]) -> None:
    world = World()
    world.scrape()
    world.engine.retune(parse(SITE, "r"), world.now)
    world.change(pool=pool)
    assert told_by(world, code) == says


def test_a_site_outranks_the_severity_in_a_line() -> None:
    world = World()
    world.engine.retune(parse(SITE, "r"), world.now)
    assert world.say(SXID.format(code=10003, severity="Fatal")) == []
    assert world.engine.counts["ignored_sxid"] == 1


def test_dcgms_word_on_a_code_is_the_sites_too() -> None:
    world = World()
    world.engine.retune(parse(SITE, "r"), world.now)
    world.scrape()
    world.give(3, XID=63)
    assert [(edge.severity, edge.action_class) for edge in world.scrape()] == [("unhealthy", "reset_gpu")]
    world.give(4, XID=31)
    assert world.scrape() == []


def test_a_site_that_no_longer_speaks_leaves_the_tables() -> None:
    world = World()
    world.engine.retune(parse(SITE, "r"), world.now)
    world.engine.retune(parse("version: 1\n", "r"), world.now)
    assert told_by(world, 43) == []


def test_a_code_that_is_nothing_any_more_ends_what_is_open_by_it() -> None:
    world = World()
    world.scrape()
    world.xid(63)
    world.xid(79, gpu=4)
    edges = world.engine.retune(parse("version: 1\ncodes:\n  xid: {63: {severity: none}}\n", "r"), world.now)
    assert [(edge.kind, edge.cause) for edge in edges] == [("cleared", "xid-63")]
    assert {cause for _, _, cause in world.open()} == {"xid-79"}


def test_a_pool_in_shadow_keeps_its_findings_when_something_else_changes() -> None:
    world = World()
    shadow = "version: 1\npools:\n  p: {xid-log: {shadow: true}}\n"
    world.change(pool="p")
    world.engine.retune(parse(shadow, "r"), world.now)
    world.scrape()
    world.xid(79)
    assert world.engine.retune(parse(shadow + "rules:\n  psu: {shadow: true}\n", "r"), world.now) == []


def test_every_code_of_every_table_may_be_changed_but_154() -> None:
    for family, known in (("xid", range(1, 177)), ("sxid", (10001, 28006)), ("dcgm", dcgmcodes.known())):
        for code in known:
            wrong = codes.wrong_code(family, code)
            assert bool(wrong) == (code == xid.RECOVERY), (family, code)
            if not wrong:
                what = codes.changed(codes.by_table(family, str(code)), {"severity": "none"})
                assert (what.severity, what.action) == (None, "ignore")


# -- the tables of DCGM's codes ---------------------------------------------------------------------------------------


def test_the_table_of_dcgm_codes_is_complete_and_sane() -> None:
    numbers = {codes.by_table("dcgm", code).code for code in dcgmcodes.known()}
    assert set(range(1, 112)) <= numbers, "every published number has a row"
    for code in dcgmcodes.known():
        what = dcgmcodes.meaning(code)
        assert what.name and what.source
        assert (what.severity is None) == (what.action == "ignore")
        assert what.severity == "unhealthy" or what.action not in ("reset_gpu", "reboot_node", "replace_part"), code


def test_the_causes_that_explain_a_dcgm_code_exist() -> None:
    known = {*DEFAULTS, *(f"xid-{code}" for code in range(1, 177))}
    for cause, others in dcgmcodes.explained_by().items():
        assert EXPLAINED_BY[cause] == others
        assert set(others) <= known, cause


# -- NVLink -----------------------------------------------------------------------------------------------------------

FATAL = "NVLink: fatal error detected on link 14({})"


def registers(**bits: int) -> str:
    words = [0] * 7
    for name, bit in bits.items():
        words[int(name[1:])] |= 1 << bit
    return FATAL.format(", ".join(hex(word) for word in words))


@pytest.mark.parametrize(
    ("detail", "action", "severity", "end"),
    [
        (registers(r0=4), "reset_gpu", "unhealthy", "local"),
        (registers(r0=17), "inspect", "unhealthy", "link"),
        (registers(r0=21), "inspect", "unhealthy", "link"),
        (registers(r0=20), "reset_gpu", "unhealthy", "remote"),
        (registers(r2=16), "reset_gpu", "unhealthy", "link"),
        (registers(r2=13), "contact_support", "unhealthy", "local"),
        (registers(r3=18), "reset_gpu", "unhealthy", "remote"),
        (registers(r4=23), "monitor", "degraded", "local"),
        (registers(r0=23), "ignore", None, ""),
        (registers(r0=20, r2=0), "reset_gpu", "unhealthy", "local"),
        (registers(r0=30, r4=18), "reset_gpu", "unhealthy", "local"),
        (registers(r1=5), "reset_gpu", "unhealthy", ""),
        (FATAL.format("0x0"), "reset_gpu", "unhealthy", ""),
        ("NVLink: something new", "reset_gpu", "unhealthy", ""),
    ],
)
def test_the_registers_of_74_say_what_it_is_and_at_which_end(
    detail: str, action: str, severity: str | None, end: str
) -> None:
    what = xid.meaning(74, detail, None)
    assert (what.action, what.severity, what.end) == (action, severity, end)
    assert not end or what.link == "14"


def test_a_74_tells_people_its_link_and_end() -> None:
    world = World()
    world.scrape()
    (edge,) = world.xid(74, detail=f"pid='<unknown>', name=<unknown>, {registers(r0=17)}")
    said = "link hardware or its connection of link 14 (on the link or its connection)"
    assert edge.text == f"GPU 3 reported Xid 74: NVLink error, {said}"
    assert (edge.evidence["link"], edge.evidence["end"]) == ("14", "link")


@pytest.mark.parametrize(
    ("code", "detail", "unit", "link", "end"),
    [
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 05 (0x00000004 0x00000002 0x0 0x0)", "RLW_REMAP", "05", "local"),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0 0x0 0x0)", "NETIR_LINK_EVT", "08", "link"),
    ],
)
def test_nvlink_5_faults_name_their_unit_link_and_end(code: int, detail: str, unit: str, link: str, end: str) -> None:
    told = nvlink.decode(code, detail)
    if told is None:
        pytest.skip("the table has no row for these words")
    assert (told.unit, told.link, told.end) == (unit, link, end)
    assert f"of link {int(link)}" in told.said


def test_the_rows_of_74_are_disjoint_and_whole() -> None:
    seen: set[tuple[str, str]] = set()
    with nvlink.TABLE_74.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for bit in row["bits"].split():
                assert (row["register"], bit) not in seen
                seen.add((row["register"], bit))
                assert 0 <= int(bit) < 32
    assert {register for register, _ in seen} == {"0", "2", "3", "4"}
