"""The caps that every installation starts with. Far below half of anything: peers use 20 % of a fleet, or one node."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

DEFAULTS = [
    # kind, scope, absolute, percent
    ("hold", "fleet", None, 20.0),
    ("take_out", "fleet", None, 8.0),
    ("take_out", "pool", None, 15.0),
    ("take_out", "rack", 2, None),
    ("in_flight", "fleet", None, 5.0),
    ("in_flight", "rack", 2, None),
    ("in_flight", "leaf", 3, None),
]


def fill(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    cap = apps.get_model("policy", "Cap")
    for kind, scope, absolute, percent in DEFAULTS:
        cap.objects.get_or_create(
            cluster_id=None, kind=kind, scope=scope, defaults={"absolute": absolute, "percent": percent}
        )
    apps.get_model("policy", "ScopeLock").objects.get_or_create(cluster_id=0, scope="fleet", key="")
    apps.get_model("policy", "Switch").objects.get_or_create(pk=1)


class Migration(migrations.Migration):
    dependencies = [("policy", "0001_initial")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
