"""The pages of the console as a Starlette application, with the rights of the kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from infra.operations import differences
from infra.operations.clusters import get_cluster
from infra.operations.describe.cluster_objects import ClusterObjects, gather
from infra.operations.describe.document import document
from infra.operations.failure import Failure
from infra.operations.listing import Row, cluster_row, provider_row, row_of
from infra.operations.manifests import dump
from infra.operations.preview import TopologyPlan
from infra.operations.text import age, plain
from shared.api import cluster as cluster_api
from shared.api.names import addon_of
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_RESOURCE_SET,
    CLUSTER_STACK,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
)
from shared.kube import ApiError, Client, Key, NotFound, Resource, Unavailable, dig, key_of

from .actions import Actions
from .cluster_tree import tree
from .flow import OUTCOMES, Flow
from .help import condition_state, explain
from .hiding import hide, hide_difference
from .overview import STATES, Search, cluster_page, state_of
from .plans import Plans, Previews, Wanted, choices, missing_rights
from .watches import PROVIDER_KINDS, Watches

_FOLDER = Path(__file__).parent
_LONGEST_TEXT = 4_000
"""Characters of a text from the API server in a page."""
STREAM_INTERVAL = 0.5
"""Seconds in which changes are gathered into one message to a browser."""
_KEEP_ALIVE = 15.0
"""Seconds after which a comment is sent, so that a connection without a browser is found and ended."""
_PLANS_WITHIN = 120.0
"""Seconds for the requests of a plan, which sends a dry run for each object."""
_READS_WITHIN = 20.0
"""Seconds in which the API server must have answered all requests for one page."""


@dataclass(frozen=True)
class Source:
    """The data of the pages.

    Attributes:
        management: The client of the management cluster.
        watches: The objects of the overview.
        flow: The answers of functions.
        name: The name of the management cluster for people.
        namespace: The only namespace that is shown; empty for all.
        actions: The changes that pages offer; None if they only show.
        is_shared: Whether the console serves several people. It makes no plans then, because a plan downloads and
            renders what a tenant names in the process that has the tokens of all.
    """

    management: Client
    watches: Watches
    flow: Flow
    name: str
    namespace: str = ""
    actions: Actions | None = None
    is_shared: bool = False


class Pages:
    """The handlers of all paths."""

    def __init__(self) -> None:
        self._ended = False
        self._plans, self._previews = Plans(), Previews()

    def end(self) -> None:
        """Ends the open streams soon, so that the server can end."""
        self._ended = True

    def app(self) -> Starlette:
        """Returns the application."""
        return Starlette(
            routes=[
                Route("/", self.overview),
                Route("/flow", self.flow),
                Route("/events", self.events),
                Route("/clusters/{namespace}/{name}", self.cluster),
                Route("/clusters/{namespace}/{name}/yaml", self.yaml),
                Route("/clusters/{namespace}/{name}/plan", self.plan),
                Route("/clusters/{namespace}/{name}/preview", self.preview),
                Route("/clusters/{namespace}/{name}/actions/{action}", self.act, methods=["POST"]),
                Mount("/static", StaticFiles(directory=_FOLDER / "static")),
            ],
            exception_handlers={Failure: _failure, ApiError: _api_error, HTTPException: _http_error},
        )

    def overview(self, request: Request) -> Response:
        """All Clusters that match a search, providers and cluster stacks."""
        watches, search = _source(request).watches, Search.of(request.query_params)
        version = watches.version()  # before the objects, so that a change in between is shown soon
        found = cluster_page(
            watches.objects(CLUSTER), watches.objects(CLUSTER_ADDON), search, watches.objects(HELM_RELEASE_PROXY)
        )

        def rows(kind: Resource) -> list[Row]:
            return [row_of(obj) for obj in sorted(watches.objects(kind), key=key_of)]

        def address(page: int) -> str:
            query = {"q": search.text, "state": search.state, "page": str(page) if page > 1 else ""}
            return "?" + urlencode({name: value for name, value in query.items() if value})

        return _page(
            request,
            "overview.html",
            source=_source(request),
            here="overview",
            version=version,
            stream="events",
            problems=watches.problems(),
            search=search,
            states=STATES,
            found=found,
            address=address,
            providers=[provider_row(obj) for obj in watches.objects(*PROVIDER_KINDS)],
            stacks=rows(CLUSTER_STACK),
            charts=rows(HELM_CHART_PROXY),
            sets=rows(CLUSTER_RESOURCE_SET),
        )

    def flow(self, request: Request) -> Response:
        """The answers of functions to events, and dead letters."""
        flow, query = _source(request).flow, request.query_params
        version = flow.version()  # before the log, so that a delivery in between is shown soon
        return _page(
            request,
            "flow.html",
            source=_source(request),
            here="flow",
            version=version,
            stream="events?flow=1",
            flow=flow.page(query),
            query=query,
            outcomes=OUTCOMES,
        )

    def cluster(self, request: Request) -> Response:
        """One Cluster, read from the API server."""
        key, watches = _key(request), _source(request).watches
        version = watches.version(key)
        management = _source(request).management.within(_READS_WITHIN)
        objects = gather(management, get_cluster(management, key))
        return cluster_response(request, _source(request), objects, version)

    def yaml(self, request: Request) -> Response:
        """The Cluster and its ClusterAddon as YAML, without secrets."""
        key, management = _key(request), _source(request).management.within(_READS_WITHIN)
        cluster = get_cluster(management, key)
        addon = management.find(CLUSTER_ADDON, addon_of(cluster))
        text = dump([hide(obj) for obj in (cluster, addon) if obj])
        return _page(request, "yaml.html", source=_source(request), key=key, text=Markup.escape(text))

    def plan(self, request: Request) -> Response:
        """The plan of a Cluster's addons for its present class, or for a class in the query."""
        if _source(request).is_shared:
            return _commands(request)
        key, management = _key(request), _source(request).management.within(_PLANS_WITHIN)
        cluster, wanted = get_cluster(management, key), _wanted(request)
        plan, problem = None, ""
        try:
            plan = self._plans.make(management, cluster, wanted)
        except Failure as error:
            problem = str(error)
        present = Wanted(cluster_api.class_name(cluster) or "", str(dig(cluster, "spec.topology.version") or ""))
        return _page(
            request,
            "plan.html",
            source=_source(request),
            key=key,
            wanted=wanted,
            present=present,
            choices=choices(management, cluster),
            plan=plan,
            problem=problem,
        )

    def act(self, request: Request) -> Response:
        """Does an action, and leads back to the page of the Cluster."""
        key, actions = _key(request), _source(request).actions
        assert actions is not None  # otherwise no POST gets here
        try:
            actions.do(request.path_params["action"], key)
        except Failure as error:
            return _message(request, 409, "This is not possible now", str(error))
        root = request.scope.get("root_path", "")
        return RedirectResponse(f"{root}/{_cluster_path(key.namespace, key.name)}", 303)

    async def preview(self, request: Request) -> Response:
        """A stream of server-sent events: the progress of the preview of a topology, and its result as HTML."""
        root, key = request.scope.get("root_path", ""), _key(request)
        if _source(request).is_shared:
            return RedirectResponse(f"{root}/{_cluster_path(key.namespace, key.name)}/plan", 303)

        def show(result: TopologyPlan | str) -> str:
            plan, problem = (None, result) if isinstance(result, str) else (result, "")
            return _render("preview.html", root=root, plan=plan, problem=problem)

        events = self._previews.stream(_source(request).management, key, _wanted(request), show)
        return StreamingResponse(events, media_type="text/event-stream")

    async def events(self, request: Request) -> Response:
        """A stream of server-sent events: the version of the data of a page after each change."""
        if request.query_params.get("flow"):
            return StreamingResponse(self._versions(_source(request).flow.version), media_type="text/event-stream")
        namespace, _, name = request.query_params.get("cluster", "").partition("/")
        cluster = Key(namespace, name) if name else None
        return StreamingResponse(
            self._versions(partial(_source(request).watches.version, cluster)), media_type="text/event-stream"
        )

    async def _versions(self, read: Callable[[], str]) -> AsyncIterator[str]:
        sent, quiet = "", 0.0
        while not self._ended:
            version = read()
            if version != sent:
                yield f"event: version\ndata: {version}\n\n"
                sent, quiet = version, 0.0
            elif quiet >= _KEEP_ALIVE:
                yield ": no change\n\n"
                quiet = 0.0
            await asyncio.sleep(STREAM_INTERVAL)
            quiet += STREAM_INTERVAL


def cluster_response(request: Request, source: Source, objects: ClusterObjects, version: str) -> Response:
    """Returns the page of one Cluster.

    Args:
        request: The request, for addresses.
        source: The data of the pages.
        objects: The objects around the Cluster.
        version: The version of the data.
    """
    now = datetime.now(UTC)
    described = document(objects, now)
    key = _key(request)
    conditions = described["cluster"].get("conditions", [])
    return _page(
        request,
        "cluster.html",
        source=source,
        version=version,
        stream="events?" + urlencode({"cluster": str(key)}),
        problems=source.watches.problems(),
        key=key,
        document=described,
        state=state_of(cluster_row(objects.cluster, objects.addon.object)),
        usual=[one for one in conditions if condition_state(one) == "good"],
        unusual=[one for one in conditions if condition_state(one) != "good"],
        offers=list(source.actions.offers(objects.cluster, objects.addon.object)) if source.actions else (),
        nodes=tree(objects, described, now),
        part_problems=objects.parts.problems,
    )


def _commands(request: Request) -> Response:
    """Returns the page with the commands that plan a Cluster elsewhere, and the rights that these need."""
    key, management = _key(request), _source(request).management.within(_READS_WITHIN)
    missing = missing_rights(management, get_cluster(management, key))
    return _page(request, "commands.html", source=_source(request), key=key, missing=missing)


def _key(request: Request) -> Key:
    return Key(request.path_params["namespace"], request.path_params["name"])


def _source(request: Request) -> Source:
    source: Source = request.scope["source"]
    return source


def _wanted(request: Request) -> Wanted:
    query = request.query_params
    return Wanted(query.get("class", "").strip()[:253], query.get("version", "").strip()[:64])


# -- errors ----------------------------------------------------------------------------------------------------


def _failure(request: Request, error: Exception) -> Response:
    return _message(request, 404, "Not found", str(error))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _message(request, error.status_code, str(error.detail), "")


def _api_error(request: Request, error: Exception) -> Response:
    if isinstance(error, NotFound):
        return _message(request, 404, "Not found", str(error))
    if isinstance(error, Unavailable):
        return _message(request, 503, "The API server does not answer", f"{error}. Reload the page to try again.")
    if isinstance(error, ApiError) and error.status == 403:
        return _message(request, 403, "A right is missing", f"The user of the kubeconfig lacks a right: {error}")
    return _message(request, 502, "The API server refused a request", str(error))


def login_response(request: Request, problem: str = "", status: int = 200, issuer: str = "") -> Response:
    """Returns the page with the form for a token, and a link to the login at an issuer."""
    return _page(request, "login.html", status, problem=problem, issuer=issuer)


def logged_in_response(request: Request) -> Response:
    """Returns a page that leads to the overview.

    It is a page and no redirect, because browsers send a cookie with `SameSite=Strict` only where a page of the site
    leads to, and a redirect continues the way from the issuer.
    """
    answer = _message(request, 200, "Logged in", "")
    answer.headers["Refresh"] = "0; url=/"
    return answer


def _message(request: Request, status: int, title: str, text: str) -> Response:
    return _page(request, "message.html", status, title=title, text=text)


# -- templates -------------------------------------------------------------------------------------------------


def _page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    return HTMLResponse(_render(template, root=request.scope.get("root_path", ""), **values), status)


def _render(template: str, **values: Any) -> str:
    return _TEMPLATES.get_template(template).render(now=datetime.now(UTC), **values)


def _finalize(value: object) -> object:
    """Makes any text one line of printable characters, before Jinja escapes it: names can contain bidi marks."""
    if isinstance(value, Markup):
        return value
    return "" if value is None else plain(value, most=_LONGEST_TEXT)


def _cluster_path(namespace: str, name: str) -> str:
    return f"clusters/{quote(str(namespace), safe='')}/{quote(str(name), safe='')}"


def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions: Mapping[str, Callable[..., object]] = {
        "age": age,
        "explain": explain,
        "condition_state": condition_state,
        "state_of": state_of,
        "key_of": key_of,
        "cluster_path": _cluster_path,
        "differences": lambda field: differences.lines(hide_difference(field)),
        "summary": differences.summary,
    }
    environment.globals.update(functions)
    return environment


_TEMPLATES = _templates()
