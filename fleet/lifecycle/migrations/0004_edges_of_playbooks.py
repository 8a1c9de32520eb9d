"""The database learns the edges that playbooks with a confirming test need."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from fleet.lifecycle import machine


def install(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    editor.execute(machine.guard_sql("lifecycle_nodelifecycle", "node_edges", machine.NODE_EDGES), params=None)


class Migration(migrations.Migration):
    dependencies = [("lifecycle", "0003_playbooks")]
    operations = [migrations.RunPython(install, migrations.RunPython.noop)]
