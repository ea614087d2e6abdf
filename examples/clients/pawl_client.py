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
from hashlib import sha256
from typing import Any, Mapping, Optional, Sequence
from urllib.parse import urlsplit

# ---- keys and payloads ----


def format_key(random: bytes) -> str:
    """The UUIDv4 of 16 random bytes."""
    bits = int.from_bytes(random, "big") & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def mint_key() -> str:
    return format_key(secrets.token_bytes(16))


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


def canonical(body: bytes) -> bytes:
    """The bytes of a JSON body that count: RFC 8785, save that numbers count by their decimal
    value. What has no such form counts as it is."""
    try:
        tree = json.loads(body.decode("utf-8"), parse_int=_Number, parse_float=_Number,
                          parse_constant=_refuse, object_pairs_hook=_object)
        return _write(tree).encode("utf-8")
    except (ValueError, RecursionError):
        return body


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
IN_PROGRESS_MS = 2_000  # where no Retry-After says how long
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


def classify(status: int, code: str) -> str:
    """What an attempt's end means; status 0: there was no response."""
    if status and (code == "PROVIDER.duplicate" or 200 <= status <= 299):
        return "done"
    if status == 408:
        return "at_once"
    if status == 409 and (code.endswith(".in_progress") or code == "CONCURRENT_REQUEST"):
        return "in_progress"
    if status in (0, 425, 429) or 500 <= status <= 599 and status not in (501, 505):
        return "later"
    return "final"


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


def read_hint(values: Sequence[str], now_ms: int) -> Optional[int]:
    """How many milliseconds Retry-After asks to wait: digits or a date, in exactly one line."""
    text = values[0].strip(" \t") if len(values) == 1 else ""
    if re.fullmatch("[0-9]+", text):
        digits = text.lstrip("0") or "0"
        return HINT_LONGEST_MS if len(digits) > 10 else min(int(digits) * 1000, HINT_LONGEST_MS)
    at = _date_ms(text, now_ms)
    return None if at is None else min(max(at - now_ms, 0), HINT_LONGEST_MS)


@dataclass
class Course:
    """The attempts at one operation; times are milliseconds since the first one began."""

    profile: Profile
    seed: int
    deadline_ms: Optional[int] = None  # the caller's own; then that of the profile, too
    attempts: int = 1
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
        return now + hint + _draw(self.seed, self.attempts + 1, spread)

    def decide(self, kind: str, hint: Optional[int], now: int) -> tuple[str, int]:
        """("retry", when), or why there is no further attempt."""
        if kind in ("done", "final"):
            return kind, 0
        if self.attempts >= self.profile.attempts:
            return "attempts", 0
        if kind == "in_progress" and hint is None:
            hint = IN_PROGRESS_MS
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
    """How an operation ended. Unless `ended` is "done" or "final" it may have happened, and so it
    may under `idempotency_status` "unknown": send it again under the same key, never another."""

    key: str
    ended: str  # done, final, attempts, deadline, hint
    attempts: int
    status: int = 0  # of the last response; 0: there was none
    headers: http.client.HTTPMessage = field(default_factory=http.client.HTTPMessage)
    body: bytes = b""
    code: str = ""  # its error code

    @property
    def idempotency_status(self) -> str:
        """pawl's word for it: stored, replayed, ..; empty without a gateway of pawl's."""
        return self.headers.get("Idempotency-Status", "")


def _error_code(headers: http.client.HTTPMessage, body: bytes) -> str:
    code = headers.get("Error-Code")
    if code is not None or len(body) > 16 * 1024:
        return code or ""
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = tree.get("error") if isinstance(tree, dict) else None
    codes = (tree.get("error_code") if isinstance(tree, dict) else None,
             error.get("code") if isinstance(error, dict) else None)
    return next((one for one in codes if isinstance(one, str)), "")


def _attempt(method: str, url: str, body: bytes, headers: Mapping[str, str], seconds: float
             ) -> tuple[int, http.client.HTTPMessage, bytes]:
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
        return 0, http.client.HTTPMessage(), b""
    finally:
        connection.close()


def send(method: str, url: str, body: bytes = b"", headers: Optional[Mapping[str, str]] = None, *,
         key: Optional[str] = None, profile: str = "user_facing",
         deadline_s: Optional[float] = None, attempt_s: float = 30) -> Result:
    """Sends one operation until it is done or cannot be. `deadline_s` bounds all of its attempts,
    `attempt_s` how long one of them waits without a byte."""
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
        code = _error_code(answer, content)
        now = int((time.monotonic() - began) * 1000)
        hint = read_hint(answer.get_all("Retry-After", []), int(time.time() * 1000))
        decision, at = course.decide(classify(status, code), hint, now)
        if decision != "retry":
            return Result(key, decision, course.attempts, status, answer, content, code)
        time.sleep(max(at / 1000 - (time.monotonic() - began), 0))
        course.attempts += 1
