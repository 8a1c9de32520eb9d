"""From a kubeconfig (or the pod's service account) to one configured ApiClient.

Decides which context is meant and whether its way of authenticating may be used at all. Refuses `exec` plugins and
auth providers that an administrator did not allow by name: a kubeconfig is data, and must not run programs here.
"""

from __future__ import annotations

import threading
from importlib import metadata
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from fleet.adapters.kubernetes.wire import track_connections
from fleet.ports import plainyaml
from fleet.ports.errors import PermanentError, TemporaryError

PLUGIN_SECONDS = 30.0
MAX_CHARS = 16 * 1024 * 1024


def user_agent() -> str:
    try:
        return f"muster/{metadata.version('muster')}"
    except metadata.PackageNotFoundError:
        return "muster/dev"


def connect(kubeconfig: str | None, context: str | None, allow_exec: frozenset[str]) -> ApiClient:
    """A client with keep-alive probes, no retries of its own, and the credential of the given context."""
    configuration = Configuration()
    configuration.retries = urllib3.Retry(total=False, redirect=False)
    configuration.socket_options = tcp_keepalive_socket_options(idle=20, interval=10, count=3)
    configuration.connection_pool_maxsize = 32
    if kubeconfig is None:
        _load_in_cluster(configuration)
    else:
        _load_file(kubeconfig, context, allow_exec, configuration)
    client = ApiClient(configuration)
    client.user_agent = user_agent()
    track_connections(client.rest_client.pool_manager)
    return client


def _load_in_cluster(configuration: Configuration) -> None:
    try:
        load_incluster_config(configuration)
    except (ConfigException, OSError) as error:
        raise PermanentError(
            f"No kubeconfig was given and this process does not run in a pod with a service account: {error}",
            code="kubeconfig",
        ) from error


def _load_file(path: str, context: str | None, allow_exec: frozenset[str], configuration: Configuration) -> None:
    document = read_document(path)
    name, user = chosen_user(path, document, context)
    refuse_programs(path, user, allow_exec)

    def load() -> None:
        loader = KubeConfigLoader(document, active_context=name)
        loader._config_base_path = str(Path(path).expanduser().absolute().parent)
        loader.load_and_set(configuration)

    try:
        if "exec" in user:
            _bounded(load, path)
        else:
            load()
    except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise PermanentError(f"The kubeconfig {path} cannot be used: {error}", code="kubeconfig") from error
    if "exec" in user and not configuration.api_key and not configuration.cert_file:
        raise PermanentError(
            f"The exec plugin {user['exec'].get('command')!r} of {path} gave no credential.", code="kubeconfig"
        )


def read_document(path: str) -> dict[str, Any]:
    """The parsed kubeconfig; a PermanentError says what is wrong with the file, never what is in it."""
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            document = plainyaml.load(file.read(MAX_CHARS))
    except FileNotFoundError as error:
        raise PermanentError(f"The kubeconfig {path} does not exist.", code="kubeconfig") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise PermanentError(f"The kubeconfig {path} cannot be read: {reason}.", code="kubeconfig") from error
    except yaml.YAMLError as error:
        raise PermanentError(f"The kubeconfig {path} is not YAML.", code="kubeconfig") from error
    if not isinstance(document, dict):
        raise PermanentError(f"The kubeconfig {path} is empty or not a mapping.", code="kubeconfig")
    return document


def chosen_user(path: str, document: dict[str, Any], context: str | None) -> tuple[str, dict[str, Any]]:
    """(context name, user section) of the context that will be used."""
    name = context or document.get("current-context") or ""
    if not name:
        raise PermanentError(f"The kubeconfig {path} has no current-context; name one.", code="kubeconfig")
    chosen = _named(document, "contexts", name, "context")
    if chosen is None:
        known = ", ".join(sorted(str(entry.get("name")) for entry in _entries(document, "contexts"))) or "none"
        raise PermanentError(f"The kubeconfig {path} has no context {name!r} (it has: {known}).", code="kubeconfig")
    return name, _named(document, "users", str(chosen.get("user", "")), "user") or {}


def refuse_programs(path: str, user: dict[str, Any], allow_exec: frozenset[str]) -> None:
    """An `exec` command or auth provider runs only if an administrator allowed exactly that command."""
    plugin, provider = user.get("exec"), user.get("auth-provider")
    if plugin is not None:
        command = str(plugin.get("command", "")) if isinstance(plugin, dict) else ""
        _demand(path, f"runs the program {command!r} to authenticate", command, allow_exec)
    if provider is not None:
        settings = provider if isinstance(provider, dict) else {}
        words = str((settings.get("config") or {}).get("cmd-path", "")).split()
        command = words[0] if words else str(settings.get("name", ""))
        _demand(path, f"authenticates through the provider {command!r}", command, allow_exec)


def _demand(path: str, does: str, command: str, allow_exec: frozenset[str]) -> None:
    if not command or command not in allow_exec:
        raise PermanentError(
            f"The kubeconfig {path} {does}, which is refused until an administrator allows that command. "
            "Use a token or a client certificate instead, or allow the command.",
            code="kubeconfig_exec",
        )


def _entries(document: dict[str, Any], section: str) -> list[dict[str, Any]]:
    entries = document.get(section)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _named(document: dict[str, Any], section: str, name: str, key: str) -> dict[str, Any] | None:
    for entry in _entries(document, section):
        if entry.get("name") == name:
            value = entry.get(key)
            return value if isinstance(value, dict) else {}
    return None


def _bounded(load: Any, path: str) -> None:
    """Run an allowed plugin with a time limit: the vendor library waits for it without one."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            load()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="kubeconfig-exec", daemon=True)
    thread.start()
    thread.join(PLUGIN_SECONDS)
    if thread.is_alive():
        text = f"The exec plugin of {path} did not answer within {PLUGIN_SECONDS:.0f} s."
        raise TemporaryError(text, code="kubeconfig")
    if failure:
        raise failure[0]
