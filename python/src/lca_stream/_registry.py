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
_MOST_BYTES = 16 << 20  # of a schema and all that it refers to
_MOST_REFERENCES = 256
_MOST_KNOWN = 1000  # schemas that are remembered


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same server alone: another one would be shown the password."""

    max_redirections = 10

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if _origin(newurl) != _origin(req.full_url):
            host = urllib.parse.urlsplit(newurl).hostname
            raise OSError(f"the schema registry leads to another server, {host!r}: give its address as url if that is right")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    u = urllib.parse.urlsplit(url)
    return u.scheme, u.hostname, u.port or {"https": 443, "http": 80}.get(u.scheme)


class Registry:
    """A schema registry with Confluent's API: what ``source.registry`` of the configuration names.

    ``registry[7]`` is the text of schema 7, after those to which it refers. Each schema is asked for once.
    """

    def __init__(self, url: str, *, username: str = "", password: str = "", ca_file: str | os.PathLike | None = None):
        u = urllib.parse.urlsplit(url)
        if u.scheme not in ("http", "https") or not u.hostname or "@" in u.netloc or u.query or u.fragment:
            raise ValueError("the url of a schema registry is http://HOST:PORT or https://HOST and a path: give the user as username and password")
        self._url = url.rstrip("/")
        tls = [urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file))] if u.scheme == "https" else []
        self._open = urllib.request.build_opener(_Stay, *tls).open
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if username or password:
            login = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._headers["Authorization"] = "Basic " + login
        self._known: dict[int, tuple[str, ...]] = {}

    def __getitem__(self, id: int) -> tuple[str, ...]:
        if id not in self._known:
            budget = [_MOST_BYTES]
            schema = self._get(f"/schemas/ids/{id}", budget)
            found = (*self._references(schema, set(), budget), schema["schema"])
            while len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[id] = found
        return self._known[id]

    def _references(self, schema: dict, seen: set[tuple[str, int]], budget: list[int]) -> list[str]:
        """What a schema refers to, each after what it refers to itself."""
        found = []
        for reference in schema.get("references") or []:
            place = reference["subject"], reference["version"]
            if place not in seen:
                seen.add(place)
                if len(seen) > _MOST_REFERENCES:
                    raise FormatError(f"the schema refers to more than {_MOST_REFERENCES} others")
                # A subject may have been deleted while there are still records of it.
                other = self._get(f"/subjects/{urllib.parse.quote(place[0], safe='')}/versions/{place[1]}?deleted=true", budget)
                found += [*self._references(other, seen, budget), other["schema"]]
        return found

    def _get(self, path: str, budget: list[int]) -> dict:
        """An answer of the registry, whose bytes are taken off the budget."""
        request = urllib.request.Request(self._url + path, headers=self._headers)
        try:
            with self._open(request, timeout=_TIMEOUT) as answer:
                text = answer.read(budget[0] + 1)
        except urllib.error.HTTPError as err:
            said = err.read(500).decode(errors="replace")
            if err.code == 404:
                raise FormatError(f"the schema registry does not have {path}: {said}") from err
            raise OSError(f"the schema registry answers {path} with {err.code}: {said}") from err
        budget[0] -= len(text)
        if budget[0] < 0:
            raise FormatError(f"the schema and what it refers to are more than {_MOST_BYTES >> 20} MiB")
        return json.loads(text)
