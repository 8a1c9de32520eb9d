"""Django settings, read from the environment.

Decides defaults for one machine (embedded servers, loopback). Refuses to start on a value that does not parse.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from fleet import settings_env as env

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = Path(env.text("MUSTER_VAR", str(BASE_DIR / "var")))
VERSION = "0.1.0"


def _secret_key() -> str:
    given = env.text("MUSTER_SECRET_KEY")
    if given:
        return given
    path = VAR / "secret_key"
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        VAR.mkdir(parents=True, exist_ok=True)
        fresh = secrets.token_urlsafe(48)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(fresh)
        except FileExistsError:
            return path.read_text(encoding="utf-8").strip()
        return fresh


def _url(name: str, file: str) -> str:
    """The configured URL, else the one that the supervisor wrote for its embedded server."""
    given = env.text(name)
    if given:
        return given
    path = VAR / "run" / file
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""Seconds after which a database whose host died is given up, which the system alone would do after hours."""


def _database(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "muster",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            **ALIVE,
            **query,
            "connect_timeout": 5,
            "pool": {"min_size": 1, "max_size": env.whole("MUSTER_DB_POOL", 10, 1), "timeout": 10, "max_idle": 60},
        },
        "TEST": {"NAME": "muster_test"},
    }


SECRET_KEY = _secret_key()
DEBUG = env.switch("MUSTER_DEBUG")
ALLOWED_HOSTS = env.words("MUSTER_ALLOWED_HOSTS", "127.0.0.1 localhost [::1] testserver")
CSRF_TRUSTED_ORIGINS = env.words("MUSTER_TRUSTED_ORIGINS")

DATABASE_URL = _url("DATABASE_URL", "database.url")
REDIS_URL = _url("REDIS_URL", "redis.url") or "redis://127.0.0.1:16379/0"
DATABASES = {"default": _database(DATABASE_URL or "postgresql://muster@127.0.0.1:5432/muster")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "access.User"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "fleet.bus",
    "fleet.audit",
    "fleet.access",
    "fleet.inventory",
    "fleet.telemetry",
    "fleet.health",
    "fleet.gangs",
    "fleet.policy",
    "fleet.tickets",
    "fleet.lifecycle",
    "fleet.ops",
    "dashboard",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.compress.Compressed",
    "dashboard.csp.ContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "fleet.access.middleware.DenyByDefault",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "fleet.urls"
ASGI_APPLICATION = "fleet.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.shell.shell",
            ]
        },
    }
]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ko", "한국어")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "static-collected"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = env.switch("MUSTER_HTTPS")
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
AUTH_PASSWORD_VALIDATORS = [{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}]

CELERY_BROKER_URL = REDIS_URL

# What Muster itself reads. Seconds unless the name says otherwise.
INSTALLATION_ID_FILE = Path(os.environ.get("MUSTER_INSTALLATION_ID_FILE") or VAR / "installation_id")
PUSH_PORT = env.whole("MUSTER_PUSH_PORT", 9470, 1)
METRICS_TIMEOUT = env.number("MUSTER_METRICS_TIMEOUT", 10, 0.5)
METRICS_AT_ONCE = env.whole("MUSTER_METRICS_AT_ONCE", 4, 1)
FABRIC_TIMEOUT = env.number("MUSTER_FABRIC_TIMEOUT", 30, 0.5)
RAY_TIMEOUT = env.number("MUSTER_RAY_TIMEOUT", 3, 0.5)
RAY_NETWORKS = env.networks("MUSTER_RAY_NETWORKS")
RAY_TOKEN = env.text("MUSTER_RAY_TOKEN")
RAY_TOKEN_NAMESPACES = frozenset(env.words("MUSTER_RAY_TOKEN_NAMESPACES"))
RAY_DRAIN_IN = frozenset(env.words("MUSTER_RAY_DRAIN_IN"))
RAY_KEEP_IN = frozenset(env.words("MUSTER_RAY_KEEP_IN"))
RAY_KEEP_SECONDS = env.number("MUSTER_RAY_KEEP_SECONDS", 3600, 60)
RAY_DRAIN_SECONDS = env.number("MUSTER_RAY_DRAIN_SECONDS", 60, 0)
SUSPEND_IN = frozenset(env.words("MUSTER_SUSPEND_IN"))
SUSPEND_WAIT_SECONDS = env.number("MUSTER_SUSPEND_WAIT_SECONDS", 60, 1)
SUSPEND_MOST_SECONDS = env.number("MUSTER_SUSPEND_MOST_SECONDS", 3600, 60)
RULES_FILE = env.text("MUSTER_RULES")
PLAYBOOKS_FILE = env.text("MUSTER_PLAYBOOKS")
SUITES_FILE = env.text("MUSTER_SUITES")
SCRAPE_INTERVAL = env.number("MUSTER_SCRAPE_INTERVAL", 15, 1)
GREY_SAMPLE_SECONDS = env.number("MUSTER_GREY_SAMPLE_SECONDS", 30, 1)
SOAK_SECONDS = env.number("MUSTER_SOAK_SECONDS", 600, 0)
REBOOT_TIMEOUT = env.number("MUSTER_REBOOT_TIMEOUT", 1800, 10)
REPROVISION_TIMEOUT = env.number("MUSTER_REPROVISION_TIMEOUT", 5400, 60)
REBOOT_OBSERVE_SECONDS = env.number("MUSTER_REBOOT_OBSERVE_SECONDS", 180, 5)
BMC_PATIENCE_SECONDS = env.number("MUSTER_BMC_PATIENCE_SECONDS", 1800, 1)
DRAIN_MARGIN_SECONDS = env.number("MUSTER_DRAIN_MARGIN_SECONDS", 120, 0)
JOB_WAIT_SECONDS = env.number("MUSTER_JOB_WAIT_SECONDS", 4 * 3600, 0)
GANG_JOIN_SECONDS = env.number("MUSTER_GANG_JOIN_SECONDS", 30, 0)
GANG_REST_SECONDS = env.number("MUSTER_GANG_REST_SECONDS", 600, 0)
GPU_HOUR_PRICE = env.number("MUSTER_GPU_HOUR_PRICE", 0, 0)  # 0: no money is told
CURRENCY = env.text("MUSTER_CURRENCY", "USD")
EVICTIONS_PER_SECOND = env.number("MUSTER_EVICTIONS_PER_SECOND", 20, 0)
EVICTIONS_AT_ONCE = env.whole("MUSTER_EVICTIONS_AT_ONCE", 8, 1)
NOT_READY_SECONDS = env.number("MUSTER_NOT_READY_SECONDS", 60, 1)
VALIDATION_IMAGE = env.text("MUSTER_VALIDATION_IMAGE", "nvcr.io/nvidia/cloud-native/dcgm:4.2.3-1-ubuntu22.04")
NCCL_IMAGE = env.text("MUSTER_NCCL_IMAGE")
NCCL_AT_LEAST = env.number("MUSTER_NCCL_AT_LEAST", 0, 0)  # GB/s
STORAGE_IMAGE = env.text("MUSTER_STORAGE_IMAGE")
STORAGE_MOUNTS = env.words("MUSTER_STORAGE_MOUNTS")
VALIDATION_NAMESPACE = env.text("MUSTER_VALIDATION_NAMESPACE", "default")
SLURM_TEST_OUTPUT = env.text("MUSTER_SLURM_TEST_OUTPUT")  # {cluster} is its name
SLURM_TEST_ACCOUNT = env.text("MUSTER_SLURM_TEST_ACCOUNT")
SLURM_TEST_PARTITION = env.text("MUSTER_SLURM_TEST_PARTITION")
SLURM_TEST_QOS = env.text("MUSTER_SLURM_TEST_QOS")
GPU_RESET_IMAGE = env.text("MUSTER_GPU_RESET_IMAGE", "nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04")
GPU_RESET_NAMESPACE = env.text("MUSTER_GPU_RESET_NAMESPACE", VALIDATION_NAMESPACE)
GPU_RESET_RUNTIME_CLASS = env.text("MUSTER_GPU_RESET_RUNTIME_CLASS")
KUBECONFIG_EXEC_ALLOWED = frozenset(env.words("MUSTER_KUBECONFIG_EXEC"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.text("MUSTER_LOG_LEVEL", "INFO")},
    "loggers": {"sushy": {"level": "ERROR"}, "django.request": {"level": "ERROR"}},
}
