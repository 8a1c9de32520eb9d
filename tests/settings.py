"""The settings of a test run: Muster's own, on servers that the run starts for itself.

pytest-django reads settings before any conftest, so this is the first place that can start them.
"""

from tests import servers

servers.ensure()

from fleet.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES["default"]["OPTIONS"].pop("pool", None)  # noqa: F405 - a pool would hold the test database open
