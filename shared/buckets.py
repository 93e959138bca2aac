"""Parses addresses of buckets and folders, opens them with obstore, and interprets its errors.

boto3 finds the keys of S3 that no setting has; it is imported for this only (0.3 s, 8 MiB).
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from html import escape
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from shared.network import Forbidden, TlsSocket, check_host, deadline, manager, origin, proxy_for
from shared.settings import SETTINGS, STORAGE

if TYPE_CHECKING:
    from obstore.auth.boto3 import Boto3CredentialProvider

DEFAULT_BUCKET = "capi-functions"
DEFAULT_REGION = "us-east-1"
DEFAULT_STORE = "CAPI_FUNCTIONS_DEFAULT_STORE"
"""The environment variable with the default store: the folder of a pod."""

CONNECT_TIMEOUT = 2.0  # seconds
READ_TIMEOUT = 10.0  # seconds without a byte
TOTAL_TIMEOUT = 120.0  # seconds for one attempt, and for a whole listing
RETRIES = 1  # after a longer outage the event is delivered again

NAMING = ("CAPI_FUNCTIONS_STORE", "CAPI_FUNCTIONS_BUCKET", "S3_ENDPOINT_URL")
"""The settings that name a store."""

_PLACES = {"s3": "AWS S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage", "file": "this machine"}
KEYS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
}
"""By scheme, the settings with the keys of a store. Without them the identity of the process opens it."""
_ENDPOINTS = ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_HOST_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")  # certificates of AWS do not cover names with dots
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_MAX_ERROR = 8192
"""Bytes of an error that are read."""
_LOCK = Lock()
_KEYS_LIFETIME = timedelta(minutes=5)  # boto3 renews keys of roles ten minutes before they end
_NOWHERE = "127.255.255.254:1"
"""The proxy for all hosts but the endpoint's, at which nobody listens, because obstore follows redirects and has no
option against it."""

SET_KEYS = f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys for this bucket ({STORAGE.where})"
CHECK_ENDPOINT = f"check S3_ENDPOINT_URL ({STORAGE.where})"
CHECK_STORE = f"check CAPI_FUNCTIONS_STORE ({STORAGE.where})"


class StorageError(Exception):
    """A request failed, and a retry cannot help.

    The message names bucket, key and endpoint, never credentials.
    """


class StorageUnavailable(StorageError):
    """A request failed for a transient reason: the object store is unreachable, overloaded or has an internal error."""


class Absent(StorageError):
    """The object or the bucket does not exist."""


class Exists(StorageError):
    """The object exists, and must not be replaced."""


def url_in(settings: Mapping[str, str]) -> str:
    """Returns the URL of the store that the settings name."""
    if url := settings.get("CAPI_FUNCTIONS_STORE"):
        return url
    bucket = settings.get("CAPI_FUNCTIONS_BUCKET", "")
    if not bucket and not settings.get("S3_ENDPOINT_URL") and (url := settings.get(DEFAULT_STORE)):
        return url
    return f"s3://{bucket or DEFAULT_BUCKET}"


def endpoint_in(settings: Mapping[str, str]) -> str:
    """Returns the S3 endpoint in the settings, without user and password, which S3 does not use; empty: AWS."""
    endpoint = next(filter(None, (settings.get(name) for name in _ENDPOINTS)), "")
    # This also removes a password with an unescaped slash, whose end a URL parser would take for a path.
    before, _, address = endpoint.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    return f"{scheme}//{address}" if slashes else endpoint


def region_in(settings: Mapping[str, str]) -> str:
    """Returns the region in the settings; empty if they have none."""
    return settings.get("AWS_DEFAULT_REGION") or settings.get("AWS_REGION") or ""


def relevant(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for opening a bucket."""
    names = (*(name for name, _ in STORAGE.keys), *_ENDPOINTS[1:])
    return {name: value for name in names if (value := settings.get(name))}


@dataclass(frozen=True)
class Bucket:
    """A bucket or a folder, and the settings that open it."""

    url: str
    settings: Mapping[str, str]

    @property
    def scheme(self) -> str:
        """`s3`, `gs`, `az` or `file`; another text if the URL is invalid."""
        return self.url.partition(":")[0]

    @property
    def name(self) -> str:
        """The name of the bucket; of a folder its path."""
        place, _, rest = self.url.partition("://")[2].partition("/")
        return unquote(f"{place}/{rest}") if self.scheme == "file" else place

    @property
    def prefix(self) -> str:
        """The folder in the bucket; empty if there is none."""
        return "" if self.scheme == "file" else urlsplit(self.url).path.strip("/")

    @property
    def endpoint(self) -> str:
        """The endpoint of S3; empty: AWS."""
        return endpoint_in(self.settings) if self.scheme == "s3" else ""

    @property
    def place(self) -> str:
        """Where the bucket is, for messages."""
        return self.endpoint or _PLACES.get(self.scheme, "an unknown place")

    @property
    def remedy(self) -> str:
        """The remedy if the place does not answer, for messages."""
        return CHECK_ENDPOINT if self.scheme == "s3" else CHECK_STORE

    def open(self) -> Any:
        """Returns obstore's store. Raises `StorageError` or `StorageUnavailable`, because keys may have to be found."""
        from obstore import store

        if self.scheme == "file":
            return self._folder()
        parts = urlsplit(self.url)
        if self.scheme not in _PLACES or not _NAME.fullmatch(parts.netloc) or parts.query or parts.fragment:
            raise StorageError(
                "the URL is not s3://<bucket>/<prefix>, gs://<bucket>/<prefix>, az://<container>/<prefix> or "
                f"file:///<path>: {CHECK_STORE}"
            )
        options: dict[str, Any] = {
            "prefix": self.prefix or None,
            "retry_config": {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=READ_TIMEOUT)},
        }
        if self.scheme == "s3":
            return store.S3Store(self.name, **self._s3(), **options)
        kind: Any = {"gs": store.GCSStore, "az": store.AzureStore}[self.scheme]
        return kind(self.name, config=self._cloud(), client_options=self._client(""), **options)

    def create(self) -> None:
        """Creates a bucket of S3, unless it exists. Raises `StorageError` or `StorageUnavailable`."""
        import obstore
        import urllib3

        url = obstore.sign(replace(self, url=f"s3://{self.name}").open(), "PUT", "", timedelta(seconds=TOTAL_TIMEOUT))
        place = f"<LocationConstraint>{escape(self.region)}</LocationConstraint>"
        body = f"<CreateBucketConfiguration>{place}</CreateBucketConfiguration>".encode()
        try:
            ca = self.settings.get("AWS_CA_BUNDLE") if url.startswith("https:") else None
            tls = ssl.create_default_context(cafile=ca)
            tls.sslsocket_class = TlsSocket
            connections = manager(self._proxy(url), anywhere=True, ssl_context=tls, retries=False)
            with connections, deadline(time.monotonic() + READ_TIMEOUT):
                answer = connections.request(
                    "PUT",
                    url,
                    body=b"" if self.region == DEFAULT_REGION else body,
                    timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT),
                    redirect=False,
                    preload_content=False,
                )
                found = _CODE.search(answer.read(_MAX_ERROR).decode(errors="replace"))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise StorageUnavailable(f"{type(error).__name__}: {self.remedy}") from None
        code = found[1] if found else ""
        # Another process may have created the bucket meanwhile; if it belongs to others, the first write fails.
        if answer.status >= 300 and code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise _refusal(answer.status, code, self)

    @property
    def region(self) -> str:
        """The region of an S3 bucket. Endpoints other than AWS mostly ignore it."""
        return region_in(self.settings) or (not self.keys and _session().region_name) or DEFAULT_REGION

    @property
    def keys(self) -> dict[str, str]:
        """Returns the keys in the settings, by their names at boto3; none if there are none. Raises `StorageError`."""
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        keys = {name.lower(): self.settings[name] for name in names if self.settings.get(name)}
        if ("aws_access_key_id" in keys) != ("aws_secret_access_key" in keys):
            raise StorageError(f"one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is not set: {SET_KEYS}")
        return keys if "aws_access_key_id" in keys else {}

    def find_keys(self) -> Boto3CredentialProvider | None:
        """Returns a provider of the S3 keys that boto3 finds, of a role or in a file; None if there are none.

        Raises `StorageError` or `StorageUnavailable`.
        """
        from botocore import exceptions
        from obstore.auth.boto3 import Boto3CredentialProvider

        try:
            with _LOCK:
                provider = Boto3CredentialProvider(_session(), ttl=_KEYS_LIFETIME)
            provider()  # here, because obstore would quote the whole error
        except ValueError:
            return None
        except exceptions.ClientError as error:  # of the service that gives out temporary keys
            code = error.response.get("Error", {}).get("Code", "no error code")
            raise StorageUnavailable(f"the role gives no keys: {code}: {SET_KEYS}") from None
        except exceptions.BotoCoreError as error:
            unreachable = (
                exceptions.ConnectionError,
                exceptions.HTTPClientError,
                exceptions.CredentialRetrievalError,
                exceptions.MetadataRetrievalError,
            )
            kind = StorageUnavailable if isinstance(error, unreachable) else StorageError
            # The text of the error may quote a file.
            raise kind(f"the search for keys failed: {type(error).__name__}: {SET_KEYS}") from None
        return provider

    def root(self, region: str) -> str:
        """Returns the URL of a bucket of S3, with a slash at its end."""
        if self.endpoint:
            return f"{self.endpoint.rstrip('/')}/{self.name}/"
        domain = f"s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
        return (
            f"https://{self.name}.{domain}/" if _HOST_LABEL.fullmatch(self.name) else f"https://{domain}/{self.name}/"
        )

    def _s3(self) -> dict[str, Any]:
        """Returns obstore's arguments for S3 alone."""
        keys, region = self.keys, self.region
        root = self.root(region)
        in_host = not root.endswith(f"/{self.name}/")
        endpoint = root.removesuffix("/" if in_host else f"/{self.name}/")
        config = {
            **{name.removeprefix("aws_"): value for name, value in keys.items()},
            "aws_endpoint_url_s3": endpoint,
            "region": region,
            "virtual_hosted_style_request": in_host,
            "disable_bulk_delete": True,  # some endpoints do not have it
        }
        arguments: dict[str, Any] = {"config": config, "client_options": self._client(endpoint)}
        if not keys:
            arguments["credential_provider"] = self.find_keys()
            if arguments["credential_provider"] is None:
                raise StorageError(f"there are no access keys: {SET_KEYS}")
        return arguments

    def _cloud(self) -> Any:
        """Returns obstore's settings for Google Cloud or Azure. It finds the identity of a workload itself."""
        return {name.lower(): self.settings[name] for name in KEYS[self.scheme] if name in self.settings}

    def _folder(self) -> Any:
        from obstore.store import LocalStore

        path = Path(self.name)
        if not path.is_absolute():
            raise StorageError(f"the path of a folder must be absolute, as in file:///var/lib/objects: {CHECK_STORE}")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return LocalStore(path)

    def _client(self, endpoint: str) -> dict[str, Any]:
        """Returns obstore's options of connections. Raises `StorageError`."""
        ca = self.settings.get("AWS_CA_BUNDLE", "")
        options: dict[str, Any] = {
            "allow_http": not endpoint.startswith("https://"),  # the URL says which one it is
            "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT),
            "read_timeout": timedelta(seconds=READ_TIMEOUT),
            "timeout": timedelta(seconds=TOTAL_TIMEOUT),
        }
        if ca and not endpoint.startswith("http://"):
            try:
                options["root_certificate"] = Path(ca).read_bytes()
            except OSError as error:
                reason = str(error.strerror).lower()
                raise StorageError(f"AWS_CA_BUNDLE {ca!r} cannot be used: {reason}") from None
        if proxy := self._proxy(endpoint) if endpoint else "":
            options["proxy_url"] = proxy
        elif endpoint:
            options |= {"proxy_url": f"http://{_NOWHERE}", "proxy_excludes": origin(endpoint)[1]}
        return options

    def _proxy(self, url: str) -> str:
        """Returns the proxy for a URL; empty for none. Raises `StorageError` for a URL that must not be used."""
        try:
            scheme, host, _ = origin(url)
            check_host(host)
            return proxy_for(scheme, host, SETTINGS)
        except ValueError as error:
            raise StorageError(f"{error}: {self.remedy}") from None
        except Forbidden as error:
            raise StorageError(f"{error.strerror}: {self.remedy}") from None
        except OSError as error:
            raise StorageError(f"the proxy cannot be used: {error.strerror}") from None


@cache
def _session() -> Any:
    """Returns the session of boto3, which finds and remembers keys."""
    import boto3.session

    return boto3.session.Session()


def failure(error: Exception, bucket: Bucket) -> StorageError:
    """Interprets an error of obstore. Parses its text, but does not quote it, because it contains response bodies."""
    text = str(error)[:_MAX_ERROR]
    if status := re.search(r"Server returned non-2xx status code: (\d{3})", text):
        code = _CODE.search(text, status.end())
        return _refusal(int(status[1]), code[1] if code else "", bucket)
    if isinstance(error, FileNotFoundError):
        return Absent("it does not exist")
    if type(error).__name__ == "AlreadyExistsError":
        return Exists("it exists")
    if _NOWHERE in text:
        return StorageError(f"it redirects to another host, which is refused: {bucket.remedy}")
    if "Received redirect without LOCATION" in text:
        return StorageError(f"the bucket is elsewhere: set AWS_DEFAULT_REGION or S3_ENDPOINT_URL ({STORAGE.where})")
    for pattern, reason, transient in _CAUSES:
        if found := pattern.search(text):
            kind = StorageUnavailable if transient else StorageError
            return kind(f"{found.expand(reason)}: {bucket.remedy}")
    if isinstance(error, ValueError):
        return StorageError("this is not a key")
    return StorageError(f"{bucket.place} does not answer like an object store: {bucket.remedy}")


_CAUSES = (
    (re.compile(r"invalid peer certificate|certificate verify"), "certificate verify failed", False),
    (re.compile(r"BadScheme|builder error"), "the address is not valid", False),
    (re.compile(r"botocore|boto3"), "the search for keys failed", True),
    (re.compile(r"failed to lookup address|dns error"), "name cannot be resolved", True),
    (re.compile(r"ConnectionRefused"), "connection refused", True),
    (re.compile(r"TimedOut|kind: Timeout"), "no answer in time", True),
    (
        re.compile(r"IncompleteMessage|IncompleteBody|UnexpectedEof|kind: Interrupted|ConnectionReset"),
        "the response is incomplete",
        True,
    ),
    (re.compile(r"Os \{\s*code: \d+,\s*kind: \w+,\s*message: \"([^\"]{1,200})\""), r"\1", True),
    (re.compile(r"kind: (?:Connect|Request|Decode)\b"), "the connection failed", True),
)
"""Patterns of obstore's texts, the reasons that they mean, and whether a retry may help."""

_ABSENT = {"NoSuchKey", "NoSuchBucket"}
_TRANSIENT = {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout"}
_TRANSIENT_STATUS = {408, 409, 429}
_DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}


def _refusal(status: int, code: str, bucket: Bucket) -> StorageError:
    """Returns the error for a status of the server, and for the code of its error, which may be empty.

    501 is not transient, because the endpoint does not support the request.
    """
    reason = f"{code} (HTTP {status})" if code else f"HTTP {status}"
    if code in _ABSENT or status == 404:
        return Absent(reason)
    if status == 412 or (status == 409 and bucket.scheme == "az"):  # the result of a failed precondition of ours
        return Exists(reason)
    if code in _DENIED or status in (401, 403):
        return StorageError(f"{reason}: {SET_KEYS if bucket.scheme == 's3' else CHECK_STORE}")
    transient = code in _TRANSIENT or status in _TRANSIENT_STATUS or (status >= 500 and status != 501)
    return StorageUnavailable(reason) if transient else StorageError(reason)
