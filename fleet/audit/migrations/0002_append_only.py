"""Audit rows are append-only: the database refuses to change or delete one."""

from django.db import migrations

SQL = """
CREATE OR REPLACE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  RAISE EXCEPTION 'audit rows are append-only' USING ERRCODE = 'insufficient_privilege';
END $body$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit_auditrow
  FOR EACH ROW EXECUTE FUNCTION audit_append_only();
"""
UNDO = "DROP TRIGGER audit_append_only ON audit_auditrow; DROP FUNCTION audit_append_only();"


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]
    operations = [migrations.RunSQL(SQL, UNDO)]
