"""The database refuses every edge that the machine does not have.

Re-run this function in a new migration whenever the machine's edges change; a test compares the two.
"""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from fleet.lifecycle import machine


def install(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    editor.execute(machine.guard_sql("lifecycle_nodelifecycle", "node_edges", machine.NODE_EDGES), params=None)
    editor.execute(machine.guard_sql("lifecycle_workflow", "workflow_edges", machine.WORKFLOW_EDGES), params=None)


class Migration(migrations.Migration):
    dependencies = [("lifecycle", "0001_initial")]
    operations = [migrations.RunPython(install, migrations.RunPython.noop)]
