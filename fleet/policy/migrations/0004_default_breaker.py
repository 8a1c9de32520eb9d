"""The breaker that every installation starts with."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def fill(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("policy", "BreakerRule").objects.get_or_create(cluster_id=None)


class Migration(migrations.Migration):
    dependencies = [("policy", "0003_guards")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
