"""Schemas of a schema registry, by the ids that stand before values."""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request

from lca_stream._files import FormatError

_TIMEOUT = 30  # seconds


class Registry:
    """A schema registry with Confluent's API: what ``source.registry`` of the configuration names.

    ``registry[7]`` is the text of schema 7, after those to which it refers. Each schema is asked for once.
    """

    def __init__(self, url: str, *, username: str = "", password: str = "", ca_file: str | os.PathLike | None = None):
        self._url = url.rstrip("/")
        self._tls = ssl.create_default_context(cafile=ca_file) if self._url.startswith("https:") else None
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if username or password:
            login = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._headers["Authorization"] = "Basic " + login
        self._known: dict[int, tuple[str, ...]] = {}

    def __getitem__(self, id: int) -> tuple[str, ...]:
        if id not in self._known:
            schema = self._get(f"/schemas/ids/{id}")
            self._known[id] = (*self._references(schema, set()), schema["schema"])
        return self._known[id]

    def _references(self, schema: dict, seen: set[tuple[str, int]]) -> list[str]:
        """What a schema refers to, each after what it refers to itself."""
        found = []
        for reference in schema.get("references") or []:
            place = reference["subject"], reference["version"]
            if place not in seen:
                seen.add(place)
                # A subject may have been deleted while there are still records of it.
                other = self._get(f"/subjects/{urllib.parse.quote(place[0], safe='')}/versions/{place[1]}?deleted=true")
                found += [*self._references(other, seen), other["schema"]]
        return found

    def _get(self, path: str) -> dict:
        request = urllib.request.Request(self._url + path, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as err:
            said = err.read().decode(errors="replace")
            if err.code == 404:
                raise FormatError(f"the schema registry does not have {path}: {said}") from err
            raise OSError(f"the schema registry answers {path} with {err.code}: {said}") from err
