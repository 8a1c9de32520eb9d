"""ASGI entry point of the web process.

What was loaded up to here lives as long as the process, so the garbage collector need not look through it again: a
look at all of it would hold a request up for as long as the page takes.
"""

import gc
import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleet.settings")
application = get_asgi_application()
gc.collect()
gc.freeze()
