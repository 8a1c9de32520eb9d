"""`manage.py cluster add|list|remove|mode`.

Decides how a registration is checked: the kubeconfig must be readable, everything else that is missing is said in
words and the cluster registered all the same, because its observer states the same problems until they are mended.
Refuses a mode that does not exist and a kubeconfig that is none.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.inventory import clusters, selectors
from fleet.inventory.models import Cluster, MetricsSource, Mode, Node, Provisioner
from fleet.inventory.targets import BadTargets
from fleet.inventory.targetsfile import TargetsFile
from fleet.ports import plainyaml
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.errors import PortError


def _person() -> str:
    return f"{getpass.getuser()} (command line)"


class Command(BaseCommand):
    help = "Registers, lists and removes clusters, and sets their modes."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        add = verbs.add_parser("add", help="register a cluster, or change its registration")
        add.add_argument("name")
        add.add_argument("--kubeconfig", help="credential that reads")
        add.add_argument("--context", help="context of the kubeconfig; its current one if left out")
        add.add_argument("--act-kubeconfig", help="credential that acts; without it nothing is ever written")
        add.add_argument("--in-cluster", action="store_true", default=None, help="use this pod's service account")
        _add_slurm(add)
        add.add_argument("--yunikorn", dest="yunikorn_url", metavar="URL", help="address of YuniKorn's REST API")
        add.add_argument("--yunikorn-ca", metavar="FILE", help="certificate authority, or 'insecure'")
        _add_metrics(add)
        add.add_argument(
            "--targets", dest="targets_file", metavar="FILE", help="list of nodes, exporters and fabric managers (YAML)"
        )
        _add_provisioner(add)
        add.add_argument("--selector", help="label selector of the nodes that may be touched; '*' is all of them")
        add.add_argument(
            "--label", action="append", metavar="SCOPE=KEY", help="label key of a scope, e.g. rack=example.com/rack"
        )
        add.add_argument("--mode", choices=Mode.values, help="observe (default), recommend or automate")
        verbs.add_parser("list", help="every registered cluster")
        remove = verbs.add_parser("remove", help="forget a cluster")
        remove.add_argument("name")
        remove.add_argument(
            "--leave-suspended", action="store_true", help="although jobs that we suspended stay so for good"
        )
        mode = verbs.add_parser("mode", help="set a cluster's mode")
        mode.add_argument("name")
        mode.add_argument("mode", choices=Mode.values)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options, SYSTEM_CLOCK.now())
        except selectors.UnknownCluster as error:
            raise CommandError(str(error)) from error

    def _add(self, options: dict[str, Any], now: datetime) -> None:
        for key in ("kubeconfig", "act_kubeconfig"):
            if options[key]:
                _readable(Path(options[key]).expanduser())
        if options["targets_file"]:
            _usable(options["targets_file"])
        wanted = [item.name for item in fields(clusters.Registration) if item.name != "label_keys"]
        try:
            pairs = dict(pair.split("=", 1) for pair in options["label"]) if options["label"] else None
            registration = clusters.Registration(**{key: options[key] for key in wanted}, label_keys=pairs)
            cluster, changed = clusters.register(
                registration, simulated_under=settings.VAR / "simulator", by=_person(), now=now
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        what = "registered" if "name" in changed else f"changed: {', '.join(changed)}" if changed else "unchanged"
        self.stdout.write(f"Cluster {cluster.name}: {what}.")
        if options["mode"] and options["mode"] != cluster.mode:
            self._mode(options, now)
        for sentence in self._missing(cluster):
            self.stdout.write(f"  ! {sentence}")

    def _missing(self, cluster: Cluster) -> list[str]:
        """What keeps it from working, in words."""
        missing: list[str] = []
        if not cluster.selector:
            missing.append("No node is managed yet: opt nodes in with --selector (or '*').")
        from fleet import wiring, wiring_gangs

        checks: list[Callable[[], list[str]]] = [
            lambda: wiring.metrics_missing(cluster),
            lambda: wiring.slurm_missing(cluster),
            lambda: wiring_gangs.yunikorn_missing(cluster),
            lambda: wiring_gangs.ray_missing(cluster),
            lambda: wiring_gangs.suspends_missing(cluster),
        ]
        if wiring.has_nodes(cluster):
            checks.append(lambda: wiring.reader(cluster).check())
        if wiring.may_act(cluster):
            checks.append(lambda: wiring.actor(cluster).check())
        if cluster.provisioner:
            checks.append(lambda: wiring.provisioner_missing(cluster))
        for check in checks:
            try:
                missing += check()
            except PortError as error:
                missing.append(str(error))
        if not wiring.has_nodes(cluster):
            missing.append("No kubeconfig, no Slurm and no list of targets: nothing is watched.")
        return list(dict.fromkeys(missing))

    def _mode(self, options: dict[str, Any], now: datetime) -> None:
        from fleet.lifecycle import services as lifecycle

        cluster = selectors.cluster_named(options["name"])
        if cluster.mode == options["mode"]:
            self.stdout.write(f"Cluster {cluster.name} is in mode {cluster.mode} already.")
            return
        lifecycle.set_mode(cluster, options["mode"], _person(), now)
        self.stdout.write(f"Cluster {cluster.name} is in mode {options['mode']}.")

    def _list(self, options: dict[str, Any], now: datetime) -> None:
        for cluster in selectors.active_clusters():
            nodes = Node.objects.filter(cluster=cluster, gone_at=None)
            managed = nodes.filter(managed=True).count()
            since = cluster.connected_at
            connected = f"connected {since.isoformat(timespec='seconds')}" if since else "never connected"
            self.stdout.write(
                f"{cluster.name}  mode {cluster.mode}, {managed} of {nodes.count()} nodes managed, {connected}"
            )
            for condition in cluster.conditions:
                self.stdout.write(f"  ! {condition['text']}")

    def _remove(self, options: dict[str, Any], now: datetime) -> None:
        cluster = selectors.cluster_named(options["name"])
        left = _started_again(cluster, now)
        if left and not options["leave_suspended"]:
            raise CommandError(
                f"Jobs that we suspended cannot be started again now: {'; '.join(left)}. Nothing would start them once "
                f"the cluster is removed. See `manage.py holds list`; start them by hand, or remove the cluster with "
                f"--leave-suspended."
            )
        if cluster.mode != Mode.OBSERVE:
            from fleet.lifecycle import services as lifecycle

            lifecycle.set_mode(cluster, Mode.OBSERVE, _person(), now)
        clusters.remove(cluster, by=_person(), now=now)
        holds = Node.objects.filter(cluster=cluster, gone_at=None).exclude(hold_value="").count()
        self.stdout.write(f"Cluster {cluster.name} is removed.")
        if holds:
            self.stdout.write(f"  ! {holds} nodes still carry a hold of ours: see `manage.py holds list`.")
        for job in left:
            self.stdout.write(f"  ! {job}: suspended by us, and nothing starts it again.")


def _started_again(cluster: Cluster, now: datetime) -> list[str]:
    """Start the jobs that we suspended there, while there is a credential for it; those that cannot be, with why."""
    from fleet import wiring_gangs
    from fleet.lifecycle.suspending import resuming
    from fleet.lifecycle.suspending.models import Suspension

    still = Suspension.objects.filter(cluster_id=cluster.pk, ended_at=None).order_by("begun_at")
    namespaces, why = resuming.namespaces(cluster), ""
    if namespaces:
        try:
            port = wiring_gangs.suspends(cluster, namespaces)
            if port is None:
                why = "no credential that acts"
            else:
                resuming.by_hand(cluster, port, now)
        except PortError as error:
            why = str(error)
    return [f"{row.title} ({row.text or why or 'no clear answer'})" for row in still]


def _add_provisioner(add: CommandParser) -> None:
    group = add.add_argument_group("provisioner", "who installs the image of a host anew; it erases local disks")
    group.add_argument("--provisioner", choices=[kind for kind in Provisioner.values if kind], help="none if left out")
    group.add_argument(
        "--provision-at", metavar="ADDRESS", help="Ironic's address; Metal3: a kubeconfig, if not this cluster's own"
    )
    group.add_argument("--provision-namespace", metavar="NAME", help="namespace of the BareMetalHosts")
    group.add_argument("--provision-credential", metavar="REF", help="env:NAME or file:PATH: user:password, or a token")
    group.add_argument("--provision-ca", metavar="FILE", help="certificate authority, or 'insecure'")


def _add_slurm(add: CommandParser) -> None:
    group = add.add_argument_group("slurm", "beside Kubernetes, or by itself: then Slurm tells of the nodes")
    group.add_argument("--slurm", dest="slurm_url", metavar="URL", help="address of slurmrestd")
    group.add_argument("--slurm-user", metavar="USER", help="who reads; else whom the token names")
    group.add_argument("--slurm-token", metavar="REF", help="env:NAME or file:PATH, holding that user's JWT")
    group.add_argument("--slurm-act-user", metavar="USER", help="the operator who acts; else whom the token names")
    group.add_argument("--slurm-act-token", metavar="REF", help="env:NAME or file:PATH; without it nothing is written")
    group.add_argument("--slurm-ca", metavar="FILE", help="certificate authority, or 'insecure'")
    group.add_argument(
        "--scontrol",
        dest="slurm_scontrol",
        metavar="PATH",
        help="Slurm's command, where REST cannot act (before 23.02)",
    )
    group.add_argument("--slurm-conf", metavar="FILE", help="the slurm.conf that scontrol reads")


def _add_metrics(add: CommandParser) -> None:
    add.add_argument("--prometheus", dest="prometheus_url", help="address of a Prometheus API")
    add.add_argument(
        "--prometheus-credential", metavar="REF", help="env:NAME or file:PATH, holding user:password or a token"
    )
    add.add_argument("--prometheus-tenant", metavar="T", help="tenant, sent as X-Scope-OrgID; or HEADER=VALUE")
    add.add_argument("--prometheus-ca", metavar="FILE", help="CA bundle of the API, or 'insecure'")
    add.add_argument("--prometheus-match", metavar="M", help='matchers of this cluster\'s series, e.g. cluster="east"')
    add.add_argument("--metrics-source", choices=MetricsSource.values, help="auto (default), scrape or query")
    add.add_argument(
        "--grafana", dest="grafana_url", metavar="URL", help="dashboard; {node} {cluster} {from} {to} are filled in"
    )


def _usable(path: str) -> None:
    """A list with mistakes is refused whole, with all of them."""
    try:
        TargetsFile(str(Path(path).expanduser())).changed()
    except BadTargets as error:
        raise CommandError(f"The list of targets {path} cannot be used:\n{error}") from error


def _readable(path: Path) -> None:
    """A kubeconfig that is none is refused; one that points nowhere is not."""
    try:
        document = plainyaml.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"The kubeconfig {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"The kubeconfig {path} is no YAML.") from error
    if not isinstance(document, dict) or not isinstance(document.get("clusters"), list):
        raise CommandError(f"{path} is no kubeconfig: it has no list of clusters.")
