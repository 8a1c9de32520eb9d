"""`manage.py makemessages`: Django's own, which also reads the short names under which modules here import gettext."""

from __future__ import annotations

from django.core.management.commands import makemessages


class Command(makemessages.Command):
    """Also `lazy` (gettext_lazy) and `noop` (gettext_noop)."""

    xgettext_options = [*makemessages.Command.xgettext_options, "--keyword=lazy", "--keyword=noop"]
