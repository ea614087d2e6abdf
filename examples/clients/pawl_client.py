# SPDX-License-Identifier: Apache-2.0
"""Sends one operation once: one key through all of its retries. Python 3.9, no dependency.

    result = send("POST", "https://api.example.com/refunds", b'{"amount":1000}',
                  {"Content-Type": "application/json"})
    result.ended == "done"

Keep the key with the operation (`key=`): whoever sends it again later, after a crash or on another
day, sends it under the same key. vectors.json says what each function returns.
"""
from __future__ import annotations

import http.client
import json
import re
import secrets
import ssl
import time
from calendar import timegm
from dataclasses import dataclass, field
from email.message import Message
from hashlib import sha256
from typing import Any, Callable, Mapping, Optional, Sequence, Union
from urllib.parse import urlsplit

# ---- keys and payloads ----


def format_key(random: bytes) -> str:
    """The UUIDv4 of 16 random bytes."""
    bits = int.from_bytes(random, "big") & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def format_dated_key(made_ms: int, random: bytes) -> str:
    """The UUIDv7 of a time, and of 16 random bytes behind the first six."""
    text = format_key(made_ms.to_bytes(6, "big") + random[6:])
    return text[:14] + "7" + text[15:]


def mint_key(dated: bool = False) -> str:
    """Dated: a UUIDv7, which says when it was made (`key_format: uuid7`)."""
    random = secrets.token_bytes(16)
    return format_dated_key(time.time_ns() // 1_000_000, random) if dated else format_key(random)


class _Number(str):
    """A JSON number as it was written: its value never goes through a double."""


def _number(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    sign, (whole, _, part) = "-" * mantissa.startswith("-"), mantissa.lstrip("-").partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    point += int(exponent[:18] or "0")
    if len(digits) > 1000 or abs(point - 1) > 9999:
        raise ValueError("a number out of bounds")
    if 0 < point <= 21:
        head, tail = digits[:point].ljust(point, "0"), digits[point:]
        return sign + head + ("." + tail if tail else "")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if digits[1:] else ''}e{point - 1:+d}"


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member name twice")
    return members


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _write(value: Any, depth: int = 0) -> str:
    if isinstance(value, _Number):
        return _number(value)
    if not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if depth == 200:
        raise ValueError("nested too deep")
    if isinstance(value, list):
        return "[" + ",".join(_write(item, depth + 1) for item in value) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(f"{_write(name)}:{_write(value[name], depth + 1)}"
                          for name in names) + "}"


def _canonical(body: bytes) -> Optional[bytes]:
    """None: it is no JSON, or has no such form."""
    try:
        tree = json.loads(body.decode("utf-8"), parse_int=_Number, parse_float=_Number,
                          parse_constant=_refuse, object_pairs_hook=_object)
        return _write(tree).encode("utf-8")
    except (ValueError, RecursionError):
        return None


def canonical(body: bytes) -> bytes:
    """The bytes of a JSON body that count: RFC 8785, save that numbers count by their decimal
    value. What has no such form counts as it is."""
    made = _canonical(body)
    return body if made is None else made


def payload_hash(body: bytes) -> str:
    """Two JSON bodies of one operation have the same; another one needs another key."""
    return sha256(canonical(body)).hexdigest()


# ---- when it is sent again ----


@dataclass(frozen=True)
class Profile:
    attempts: int
    total_ms: Optional[int]
    base_ms: int = 0
    cap_ms: int = 0
    spread: bool = False  # to twice the delay; else by `base_ms` at most
    offsets_s: tuple[int, ...] = ()  # since the first attempt, in the place of delays
    at_once: bool = True  # the first 408


PROFILES = {
    "user_facing": Profile(5, 10_000, 100, 2_000, spread=True),
    "api": Profile(4, 10_000, 1_000, 30_000),
    "background": Profile(6, 300_000, 1_000, 30_000),
    "scheduled": Profile(4, 3_600_000, 1_000, 30_000),
    "webhook": Profile(10, 86_400_000, at_once=False, offsets_s=(
        0, 5, 30, 120, 600, 1800, 3600, 21600, 43200, 86400)),
    "queue": Profile(10, None, 1_000, 300_000, at_once=False),
}
BUSY_MS = (1_000, 2_000, 30_000)  # after a Retry-After; else first, and doubled at most
BUSY_MOST_MS = 900_000  # where it only may be so
HINT_MOST_MS = 86_400_000  # where no deadline bounds it
HINT_SPREAD_MS = 10_000  # a hint up to this is spread by itself, a longer one less
HINT_LONGEST_MS = 9_999_999_999_000
_MASK = (1 << 64) - 1


def _draw(seed: int, n: int, most: int) -> int:
    """0 to `most`: the n-th number of splitmix64 under this seed."""
    z = (seed + n * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK
    return (z ^ z >> 31) % (most + 1)


def _offset_ms(profile: Profile, attempt: int, seed: int) -> int:
    at = profile.offsets_s[attempt - 1] * 1000
    if attempt in (1, profile.attempts):
        return at
    return at + _draw(seed, attempt, (at - profile.offsets_s[attempt - 2] * 1000) // 10)


def delay_ms(profile: Profile, attempt: int, seed: int) -> int:
    """Before attempt 2, 3, .."""
    if profile.offsets_s:
        return _offset_ms(profile, attempt, seed) - _offset_ms(profile, attempt - 1, seed)
    delay = min(profile.base_ms << (attempt - 2), profile.cap_ms)
    drawn = _draw(seed, attempt, delay if profile.spread else profile.base_ms)
    return min(delay + drawn, profile.cap_ms)


BUSY_WORDS = {(409, "CONCURRENT_REQUEST"), (409, "idempotency_key_in_use"),
              (409, "PREVIOUS_REQUEST_IN_PROGRESS"), (409, "704"), (422, "704"),
              (429, "lock_timeout")}


def _tree(body: bytes) -> Any:
    """The JSON of a body of at most 16 KiB, read as strictly as what is sent."""
    text = _canonical(body) if len(body) <= 16 * 1024 else None
    return None if text is None else json.loads(text)


def _at(tree: Any, *steps: Union[str, int]) -> Any:
    for step in steps:
        if isinstance(step, str) and isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(step, int) and isinstance(tree, list) and len(tree) > step:
            tree = tree[step]
        else:
            return None
    return tree


def error_code(headers: Message, tree: Any) -> str:
    """Where services have it; `tree`: the JSON of the body, None without one."""
    codes = (headers.get("Error-Code"), _at(tree, "error_code"), _at(tree, "error", "code"),
             _at(tree, "errorCode"), _at(tree, "details", 0, "issue"))
    return next((one for one in codes if isinstance(one, str)), "")


def _advice(headers: Message, problem: Any) -> Optional[bool]:
    """What a response says itself about a retry."""
    said = _at(problem, "retryable")
    if isinstance(said, bool):
        return said
    lines = (headers.get(name, "").strip().lower()
             for name in ("Stripe-Should-Retry", "X-Should-Retry", "Transient-Error"))
    return next((line == "true" for line in lines if line in ("true", "false")), None)


def _success(headers: Message) -> str:
    """What a gateway of pawl's says of a 2xx: it stands, is surely undone, or nobody is sure."""
    word = headers.get("Idempotency-Status", "").strip()
    if word == "unknown" or word == "released" and "Error-Code" in headers:
        return "unsure"
    return "undone" if word == "released" else "stands"


def leaves_doubt(status: int, headers: Message, body: bytes) -> bool:
    """Whether the operation may have been done; status 0: there was no response."""
    if 200 <= status <= 299:
        return _success(headers) == "unsure"
    if status == 0 or status >= 500 and status not in (501, 503, 505, 508):
        return True
    return error_code(headers, _tree(body)) == "CONFLICT.idempotency.outcome_unknown"


REDIRECTS = (301, 302, 303, 307, 308)


def _is_json(media_type: str) -> bool:
    name = r"[!#$%&'*+.^_`|~0-9a-z-]+"
    return bool(re.fullmatch(rf"application/json|{name}/{name}[+]json", media_type))


def _media_type(value: str) -> str:
    return value.split(";")[0].strip().lower()


def is_portal(url: str, sent: Sequence[tuple[str, str]], status: int, headers: Message,
              done: Sequence[int] = (), later: Sequence[int] = ()) -> bool:
    """Whether a response is none of the service's, but of a portal on the way, such as the login
    page of a hotel's network, which reaches nobody: without TLS a redirect, or a page of HTML where
    JSON was asked for. `sent`: the header lines of the request."""
    if urlsplit(url).scheme == "https" or status in done or status in later \
            or "Idempotency-Status" in headers:
        return False
    if status not in (200, 511) or _media_type(headers.get("Content-Type", "")) != "text/html":
        return status in REDIRECTS
    accepts = [_media_type(one) for name, value in sent if name.lower() == "accept"
               for one in value.split(",")]
    own = [_media_type(value) for name, value in sent if name.lower() == "content-type"][:1]
    return "text/html" not in accepts and any(map(_is_json, accepts + own))


def classify(status: int, headers: Message, body: bytes, in_doubt: bool = False,
             done: Sequence[int] = (), later: Sequence[int] = ()) -> str:
    """What an attempt's end means; status 0: there was no response. `in_doubt`: an earlier attempt
    under this key may have been carried out. `done`, `later`: what the caller knows of statuses."""
    tree = _tree(body)
    code = error_code(headers, tree)
    if 200 <= status <= 299 and _success(headers) != "stands":
        return "later"
    if 200 <= status <= 299 or status and code == "PROVIDER.duplicate":
        return "done"
    if status in (401, 407) and code != "AUTH.signature":
        return "credentials"
    if code == "CONFLICT.idempotency.duplicate":
        return "final"
    is_problem = headers.get_content_type() == "application/problem+json"
    words = [str(_at(tree, name) or "") for name in ("title", "type") if is_problem]
    outstanding = any("request is outstanding" in one.lower() for one in words)
    if (status, code) in BUSY_WORDS or status == 409 and outstanding:
        return "busy"
    if 400 <= status <= 499 and code.endswith("idempotency.in_progress"):
        return "busy"
    if 400 <= status <= 499 and code.endswith(".in_progress"):
        return "busy_a_while"
    doubted = in_doubt or leaves_doubt(status, headers, body)
    end = "in_doubt" if status and doubted else "final"
    advice = _advice(headers, tree if is_problem else None)
    if status and advice is not None:
        return end if not advice else "busy" if status == 409 else "later"
    if status in done or status in later:
        return "done" if status in done else "later"
    limited = "Retry-After" in headers or headers.get("x-ratelimit-remaining", "").strip() == "0"
    if status == 403 and limited:
        return "later"
    if status == 409 and in_doubt:
        return "busy_a_while"
    if status == 408:
        return "at_once"
    if status in (0, 425, 429) or status >= 500 and status not in (501, 505):
        return "later"
    return end


FIFTY_YEARS_MS = 50 * 31_556_952_000
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY = "(?:" + "|".join(_DAYS) + ")"
_LONG_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = [re.compile(form) for form in (
    f"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
    f"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
    f"{_DAY} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})")]


def _date_ms(text: str, now_ms: int) -> Optional[int]:
    """Any of the three forms of an HTTP date (RFC 9110 5.6.7)."""
    found = next((match for match in (form.fullmatch(text) for form in _DATES) if match), None)
    if not found:
        return None
    year, day, hour, minute, second = (int(found[name]) for name in
                                       ("year", "day", "hour", "minute", "second"))
    month = _MONTHS.index(found["month"]) + 1
    if len(found["year"]) == 2:  # at most 50 years ahead, else it has passed
        latest = time.gmtime(now_ms / 1000).tm_year + 50
        year = latest - (latest - year) % 100
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    if not (1 <= day <= days and hour < 24 and minute < 60 and second <= 60 and year > 0):
        return None
    at_ms = timegm((year, month, day, hour, minute, second)) * 1000
    return 0 if len(found["year"]) == 2 and at_ms > now_ms + FIFTY_YEARS_MS else at_ms


def _line_ms(text: str, now_ms: int) -> Optional[int]:
    at = _date_ms(text, now_ms)
    if at is not None:
        return max(at - now_ms, 0)
    longest = 0
    for one in text.split(","):
        found = re.fullmatch("([0-9]+)([.][0-9]+)?", one.strip(" \t"))
        if not found:
            return None
        digits = found[1].lstrip("0") or "0"
        seconds = int(digits) if len(digits) <= 10 else HINT_LONGEST_MS
        longest = max(longest, (seconds + (found[2] or "").strip(".0").isdigit()) * 1000)
    return longest


def read_hint(values: Sequence[str], now_ms: int) -> Optional[int]:
    """How many milliseconds Retry-After asks to wait: the longest of its lines, each of them a
    date, or seconds, with a fraction or without (rounded up), or a list of them."""
    hints = [hint for hint in (_line_ms(one.strip(" \t"), now_ms) for one in values)
             if hint is not None]
    return min(max(hints), HINT_LONGEST_MS) if hints else None


@dataclass
class Course:
    """The attempts at one operation; times are milliseconds since the first one began."""

    profile: Profile
    seed: int
    deadline_ms: Optional[int] = None  # the caller's own; then that of the profile, too
    attempts: int = 1  # those that count
    uncounted: int = 0
    busy_since: Optional[int] = None
    in_doubt: bool = False  # an attempt may have been carried out
    had_408: bool = False

    def __post_init__(self) -> None:
        ends = [ms for ms in (self.deadline_ms, self.profile.total_ms) if ms is not None]
        self.deadline_ms = min(ends, default=None)

    def _scheduled(self, kind: str, now: int) -> Optional[int]:
        first_408 = kind == "at_once" and not self.had_408
        self.had_408 |= kind == "at_once"
        if first_408 and self.profile.at_once:
            return now
        if not self.profile.offsets_s:
            return now + delay_ms(self.profile, self.attempts + 1, self.seed)
        ahead = (_offset_ms(self.profile, n, self.seed)
                 for n in range(self.attempts + 1, self.profile.attempts + 1))
        return next((at for at in ahead if at > now), None)

    def _hinted(self, hint: int, now: int) -> int:
        """Spread upward, but not by that beyond the deadline."""
        if self.deadline_ms is None:
            hint = min(hint, HINT_MOST_MS)
        elif now + hint >= self.deadline_ms:
            return now + hint
        spread = max(hint // 10, min(hint, HINT_SPREAD_MS))
        if self.deadline_ms is not None:
            spread = min(spread, self.deadline_ms - now - hint)
        return now + hint + _draw(self.seed, self.attempts + self.uncounted + 1, spread)

    def _busy(self, hint: Optional[int], now: int) -> tuple[str, int]:
        """Uses up no attempt: only the deadline ends it."""
        least, first, last = BUSY_MS
        self.busy_since = now if self.busy_since is None else self.busy_since
        wait = max(first, min(now - self.busy_since, last)) if hint is None else max(hint, least)
        at = self._hinted(wait, now)
        self.attempts -= 1
        self.uncounted += 1
        if self.deadline_ms is not None and at > self.deadline_ms:
            return "deadline" if hint is None else "hint", 0
        return "retry", at

    def decide(self, kind: str, hint: Optional[int], now: int) -> tuple[str, int]:
        """("retry", when), or why there is no further attempt."""
        if kind in ("done", "final", "in_doubt", "credentials"):
            return kind, 0
        since = now if self.busy_since is None else self.busy_since
        if kind == "busy_a_while" and now - since >= BUSY_MOST_MS:
            return "in_doubt" if self.in_doubt else "final", 0
        if kind in ("busy", "busy_a_while"):
            return self._busy(hint, now)
        self.busy_since = None
        if self.attempts >= self.profile.attempts:
            return "attempts", 0
        at = self._scheduled(kind, now)
        if at is None or self.deadline_ms is not None and at > self.deadline_ms:
            return "deadline", 0
        if hint is not None:
            hinted = self._hinted(hint, now)
            if self.deadline_ms is not None and hinted > self.deadline_ms:
                return "hint", 0
            at = max(at, hinted)
        return "retry", at


# ---- sending ----


@dataclass
class Result:
    """How an operation ended. Where `in_doubt`, or under `idempotency_status` "unknown", it may
    have happened: send it again under the same key, never another."""

    key: str
    ended: str  # done, final, in_doubt, credentials, attempts, deadline, hint
    attempts: int
    in_doubt: bool
    status: int = 0  # of the last response; 0: there was none, or a portal's
    headers: Message = field(default_factory=Message)
    body: bytes = b""
    code: str = ""  # its error code

    @property
    def idempotency_status(self) -> str:
        """pawl's word for it: stored, replayed, ..; empty without a gateway of pawl's."""
        return self.headers.get("Idempotency-Status", "")


def _attempt(method: str, url: str, body: bytes, headers: Mapping[str, str], seconds: float
             ) -> tuple[int, Message, bytes]:
    """Status 0: no whole response came. Redirects are not followed."""
    at = urlsplit(url)
    if at.scheme == "https":
        connection = http.client.HTTPSConnection(at.netloc, timeout=seconds,
                                                 context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(at.netloc, timeout=seconds)
    try:
        connection.request(method, (at.path or "/") + ("?" + at.query if at.query else ""), body,
                           dict(headers))
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    except (OSError, http.client.HTTPException):
        return 0, Message(), b""
    finally:
        connection.close()


def send(method: str, url: str, body: bytes = b"", headers: Optional[Mapping[str, str]] = None, *,
         key: Optional[str] = None, profile: str = "user_facing",
         deadline_s: Optional[float] = None, attempt_s: float = 30, done: Sequence[int] = (),
         later: Sequence[int] = (),
         not_done: Optional[Callable[[Message, bytes], bool]] = None) -> Result:
    """Sends one operation until it is done or cannot be. `deadline_s` bounds all of its attempts,
    `attempt_s` how long one of them waits without a byte. `done`, `later`: statuses by which this
    service says that it was done before, or to come again; `not_done`: whether a response says, by
    whatever it has, that it was not done."""
    key = key or mint_key()
    began = time.monotonic()
    course = Course(PROFILES[profile], secrets.randbits(64),
                    None if deadline_s is None else int(deadline_s * 1000))
    while True:
        now = int((time.monotonic() - began) * 1000)
        left = attempt_s if course.deadline_ms is None else (course.deadline_ms - now) / 1000
        seconds = max(min(attempt_s, left), 0.001)
        status, answer, content = _attempt(method, url, body, {
            **(headers or {}), "Idempotency-Key": key,
            "X-Request-Timeout": str(int(seconds * 1000))}, seconds)
        undone = status and not_done and not_done(answer, content)
        sent = list((headers or {}).items())
        portal = not undone and is_portal(url, sent, status, answer, done, later)
        if portal:
            status, answer, content = 0, Message(), b""
        kind = "later" if undone else classify(status, answer, content, course.in_doubt, done,
                                               later)
        now = int((time.monotonic() - began) * 1000)
        hint = read_hint(answer.get_all("Retry-After", []), int(time.time() * 1000))
        decision, at = course.decide(kind, hint, now)
        doubted = course.in_doubt or \
            leaves_doubt(status, answer, content) and not (undone or portal)
        course.in_doubt = doubted and kind not in ("done", "final")
        if decision != "retry":
            return Result(key, decision, course.attempts + course.uncounted, course.in_doubt,
                          status, answer, content, error_code(answer, _tree(content)))
        time.sleep(max(at / 1000 - (time.monotonic() - began), 0))
        course.attempts += 1
