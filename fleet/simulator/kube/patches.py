"""The three kinds of PATCH: JSON merge, strategic merge and JSON patch.

It decides what a document becomes. It refuses whatever the API server refuses: a failed `test` is an error and
leaves the document alone; an unknown list key is replaced whole.
"""

import copy
from typing import Any

from fleet.simulator.kube.errors import ApiError, bad_request

Json = dict[str, Any]

# Field name -> the key its list is merged by; lists that are absent here (taints, tolerations, args) are atomic.
MERGE_KEYS = {
    "conditions": "type",
    "addresses": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "ownerReferences": "uid",
    "imagePullSecrets": "name",
}
MERGED_SETS = ("finalizers",)


def merge(document: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic(document: Any, patch: Json) -> Json:
    """Merge patch with lists that know their key and the $-directives."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    if directive == "delete":
        return {}
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.split("/", 1)[1]
            merged[field] = [entry for entry in merged.get(field) or [] if entry not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = strategic(merged.get(key), value)
        elif isinstance(value, list):
            merged[key] = _list(key, merged.get(key) or [], value)
        else:
            merged[key] = value
    return merged


def _list(field: str, old: list[Any], new: list[Any]) -> list[Any]:
    if field in MERGED_SETS:
        return old + [entry for entry in new if entry not in old]
    key = MERGE_KEYS.get(field)
    if key is None or not all(isinstance(entry, dict) for entry in new):
        return copy.deepcopy(new)
    if any(entry.get("$patch") == "replace" for entry in new):
        return [entry for entry in new if entry.get("$patch") != "replace"]
    merged = {entry.get(key): entry for entry in old}
    for entry in new:
        if entry.get(key) is None:
            raise bad_request(f"map: {entry} does not contain declared merge key: {key}")
        if entry.get("$patch") == "delete":
            merged.pop(entry[key], None)
        else:
            merged[entry[key]] = strategic(merged.get(entry[key]), entry)
    return list(merged.values())


def json_patch(document: Json, operations: Any) -> Json:
    """RFC 6902. Any operation that cannot be done fails the whole patch with 422."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    result: Any = copy.deepcopy(document)
    for operation in operations:
        try:
            result = _operate(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as problem:
            text = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", text, {}) from problem
    return result


def _operate(document: Any, operation: Json) -> Any:
    word, path = operation["op"], _pointer(operation["path"])
    if word == "test":
        if _read(document, path) != operation.get("value"):
            raise ValueError("test failed")
        return document
    if word in ("move", "copy"):
        source = _pointer(operation["from"])
        value = copy.deepcopy(_read(document, source))
        if word == "move":
            document = _remove(document, source)
        return _add(document, path, value)
    if word == "remove":
        return _remove(document, path)
    if word == "replace":
        _read(document, path)
        return _set(document, path, operation["value"])
    if word == "add":
        return _add(document, path, operation["value"])
    raise ValueError(f"unknown operation {word}")


def _pointer(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise ValueError("a pointer begins with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _read(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _set(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        parent[int(path[-1])] = value
    else:
        parent[path[-1]] = value
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        position = len(parent) if path[-1] == "-" else int(path[-1])
        if position > len(parent):
            raise IndexError(position)
        parent.insert(position, value)
    else:
        parent[path[-1]] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        parent.pop(int(path[-1]))
    else:
        del parent[path[-1]]
    return document
