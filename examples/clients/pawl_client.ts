// SPDX-License-Identifier: Apache-2.0
/* Sends one operation once: one key through all of its retries. TypeScript for Node.js 18 and
 * browsers, no dependency.
 *
 *     const result = await send('POST', 'https://api.example.com/refunds', '{"amount":1000}',
 *                               {headers: {'Content-Type': 'application/json'}});
 *     result.ended === 'done'
 *
 * Keep the key with the operation (`key:`): whoever sends it again later, after a crash or on
 * another day, sends it under the same key. vectors.json says what each function returns. */

// ---- keys and payloads ----

const hexOf = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** The UUIDv4 of 16 random bytes. */
export function formatKey(random: Uint8Array): string {
  const bytes = Uint8Array.from(random);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return hexOf(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** The UUIDv7 of a time, and of 16 random bytes behind the first six. */
export function formatDatedKey(madeMs: number, random: Uint8Array): string {
  const key = formatKey(random).slice(13);
  return madeMs.toString(16).padStart(12, '0').replace(/^(.{8})/, '$1-') + key.replace('-4', '-7');
}

/** Dated: a UUIDv7, which says when it was made (`key_format: uuid7`). */
export function mintKey(dated = false): string {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return dated ? formatDatedKey(Date.now(), random) : formatKey(random);
}

/** The canonical text of a JSON number: its value never goes through a double. */
function canonicalNumber(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const sign = mantissa.startsWith('-') ? '-' : '';
  const [whole = '', part = ''] = mantissa.replace('-', '').split('.');
  const shifted = (whole + part).replace(/^0+/, '');
  const digits = shifted.replace(/0+$/, '');
  if (digits === '') return '0';
  const point = whole.length - (whole.length + part.length - shifted.length) + Number(exponent);
  if (digits.length > 1000 || Math.abs(point - 1) > 9999) throw new Error('out of bounds');
  if (point > 0 && point <= 21) {
    const tail = digits.slice(point);
    return sign + digits.slice(0, point).padEnd(point, '0') + (tail && '.' + tail);
  }
  if (point > -6 && point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
  const rest = digits.slice(1);
  return `${sign}${digits[0]}${rest && '.' + rest}e${point > 0 ? '+' : ''}${point - 1}`;
}

const TOKEN = new RegExp(
  '[ \\t\\n\\r]*(?:([\\[\\]{},:])|(true|false|null)' +
    '|(-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)' +
    '|("(?:[^"\\\\\\u0000-\\u001f]|\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4}))*"))', 'y');

/** Reads JSON, and writes it anew. JSON.parse would round numbers and drop members of one name. */
class Canonical {
  private at = 0;
  constructor(private readonly text: string) {}

  all(): string {
    const value = this.value(this.next(), 0);
    if (/[^ \t\n\r]/.test(this.text.slice(this.at))) throw new Error('more than one value');
    return value;
  }

  private next(): RegExpExecArray {
    TOKEN.lastIndex = this.at;
    const token = TOKEN.exec(this.text);
    if (!token) throw new Error('no JSON');
    this.at = TOKEN.lastIndex;
    return token;
  }

  private value([, mark, word, number, string]: RegExpExecArray, depth: number): string {
    if (word !== undefined) return word;
    if (number !== undefined) return canonicalNumber(number);
    if (string !== undefined) return JSON.stringify(this.string(string));
    if ((mark !== '[' && mark !== '{') || depth === 200) throw new Error('no value');
    return mark === '[' ? this.list(depth + 1) : this.object(depth + 1);
  }

  private string(literal: string): string {
    const value: string = JSON.parse(literal);
    if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(value))
      throw new Error('a lone surrogate');
    return value;
  }

  private list(depth: number): string {
    const items: string[] = [];
    let token = this.next();
    while (token[1] !== ']') {
      items.push(this.value(token, depth));
      token = this.next();
      if (token[1] === ',') {
        token = this.next();
        if (token[1] === ']') throw new Error('a comma at the end');
      } else if (token[1] !== ']') throw new Error('no comma');
    }
    return `[${items.join()}]`;
  }

  private object(depth: number): string {
    const members = new Map<string, string>();
    let token = this.next();
    while (token[1] !== '}') {
      const name = this.string(token[4] ?? '');
      if (members.has(name) || this.next()[1] !== ':') throw new Error('no member');
      members.set(name, this.value(this.next(), depth));
      token = this.next();
      if (token[1] === ',') {
        token = this.next();
        if (token[1] === '}') throw new Error('a comma at the end');
      } else if (token[1] !== '}') throw new Error('no comma');
    }
    const names = [...members.keys()].sort(); // by UTF-16 code units, as RFC 8785 says
    return `{${names.map((name) => `${JSON.stringify(name)}:${members.get(name)}`).join()}}`;
  }
}

/** The bytes of a JSON body that count: RFC 8785, save that numbers count by their decimal value.
 * What has no such form counts as it is. */
export function canonical(body: Uint8Array): Uint8Array {
  try {
    const text = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(body);
    return new TextEncoder().encode(new Canonical(text).all());
  } catch {
    return body;
  }
}

/** Two JSON bodies of one operation have the same; another one needs another key. */
export async function payloadHash(body: Uint8Array): Promise<string> {
  const bytes = Uint8Array.from(canonical(body));
  return hexOf(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
}

// ---- when it is sent again ----

export interface Profile {
  attempts: number;
  totalMs: number; // Infinity: no limit
  baseMs: number;
  capMs: number;
  spread?: boolean; // to twice the delay; else by `baseMs` at most
  offsetsS?: readonly number[]; // since the first attempt, in the place of delays
  by408?: boolean; // the first 408, too, waits for the schedule
}

export const PROFILES: Readonly<Record<string, Profile>> = {
  user_facing: {attempts: 5, totalMs: 10_000, baseMs: 100, capMs: 2_000, spread: true},
  api: {attempts: 4, totalMs: 10_000, baseMs: 1_000, capMs: 30_000},
  background: {attempts: 6, totalMs: 300_000, baseMs: 1_000, capMs: 30_000},
  scheduled: {attempts: 4, totalMs: 3_600_000, baseMs: 1_000, capMs: 30_000},
  webhook: {attempts: 10, totalMs: 86_400_000, baseMs: 0, capMs: 0, by408: true,
    offsetsS: [0, 5, 30, 120, 600, 1800, 3600, 21600, 43200, 86400]},
  queue: {attempts: 10, totalMs: Infinity, baseMs: 1_000, capMs: 300_000, by408: true},
};
const BUSY_LEAST_MS = 1_000; // after a Retry-After
const BUSY_FIRST_MS = 2_000; // without one, and doubled
const BUSY_LAST_MS = 30_000;
const BUSY_MOST_MS = 900_000; // where it only may be so
const HINT_MOST_MS = 86_400_000; // where no deadline bounds it
const HINT_SPREAD_MS = 10_000; // a hint up to this is spread by itself, a longer one less
const HINT_LONGEST_MS = 9_999_999_999_000;
const FIFTY_YEARS_MS = 50 * 31_556_952_000;

/** 0 to `most`: the n-th number of splitmix64 under this seed. */
function draw(seed: bigint, n: number, most: number): number {
  const cut = (value: bigint): bigint => BigInt.asUintN(64, value);
  let z = cut(seed + BigInt(n) * 0x9e3779b97f4a7c15n);
  z = cut((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = cut((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return Number((z ^ (z >> 31n)) % BigInt(most + 1));
}

function offsetMs(profile: Profile, attempt: number, seed: bigint): number {
  const offsets = profile.offsetsS ?? [];
  const at = (offsets[attempt - 1] ?? 0) * 1000;
  if (attempt === 1 || attempt === profile.attempts) return at;
  const step = at - (offsets[attempt - 2] ?? 0) * 1000;
  return at + draw(seed, attempt, Math.floor(step / 10));
}

/** Before attempt 2, 3, .. */
export function delayMs(profile: Profile, attempt: number, seed: bigint): number {
  if (profile.offsetsS)
    return offsetMs(profile, attempt, seed) - offsetMs(profile, attempt - 1, seed);
  const delay = Math.min(profile.baseMs * 2 ** (attempt - 2), profile.capMs);
  const drawn = draw(seed, attempt, profile.spread ? delay : profile.baseMs);
  return Math.min(delay + drawn, profile.capMs);
}

export type Kind = 'done' | 'final' | 'in_doubt' | 'credentials' | 'later' | 'at_once' | 'busy' |
  'busy_a_while';

const BUSY_WORDS = ['409 CONCURRENT_REQUEST', '409 idempotency_key_in_use',
  '409 PREVIOUS_REQUEST_IN_PROGRESS', '409 704', '422 704', '429 lock_timeout'];

/** The JSON of a body of at most 16 KiB, read as strictly as what is sent. */
function treeOf(body: string): any {
  if (new TextEncoder().encode(body).length > 16 * 1024) return undefined;
  try {
    return JSON.parse(new Canonical(body).all());
  } catch {
    return undefined;
  }
}

/** Where services have it. */
export function errorCode(headers: Headers, body: string): string {
  const tree = treeOf(body);
  const codes = [headers.get('Error-Code'), tree?.error_code, tree?.error?.code, tree?.errorCode,
    tree?.details?.[0]?.issue];
  return codes.find((one) => typeof one === 'string') ?? '';
}

/** What a response says itself about a retry. */
function adviceOf(headers: Headers, problem: any): boolean | undefined {
  if (typeof problem?.retryable === 'boolean') return problem.retryable;
  const lines = ['Stripe-Should-Retry', 'X-Should-Retry', 'Transient-Error'].map((name) =>
    headers.get(name)?.trim().toLowerCase());
  const said = lines.find((line) => line === 'true' || line === 'false');
  return said === undefined ? undefined : said === 'true';
}

/** What a gateway of pawl's says of a 2xx: it stands, is surely undone, or nobody is sure. */
function successOf(headers: Headers): 'stands' | 'undone' | 'unsure' {
  const word = headers.get('Idempotency-Status')?.trim();
  if (word === 'unknown' || (word === 'released' && headers.has('Error-Code'))) return 'unsure';
  return word === 'released' ? 'undone' : 'stands';
}

/** Whether the operation may have been done; status 0: there was no response. */
export function leavesDoubt(status: number, headers: Headers, body: string): boolean {
  if (status >= 200 && status <= 299) return successOf(headers) === 'unsure';
  return status === 0 || (status >= 500 && ![501, 503, 505, 508].includes(status)) ||
    errorCode(headers, body) === 'CONFLICT.idempotency.outcome_unknown';
}

/** What the caller knows of single statuses. */
export interface Choices {
  done?: readonly number[];
  later?: readonly number[];
}

const JSON_TYPE = /^(application\/json|[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+[+]json)$/;

const mediaType = (value: string): string => (value.split(';')[0] ?? '').trim().toLowerCase();

/** Whether a response is none of the service's, but of a portal on the way, such as the login page
 * of a hotel's network, which reaches nobody: without TLS a redirect, or a page of HTML where JSON
 * was asked for. `sent`: the header lines of the request. */
export function isPortal(url: string, sent: readonly (readonly [string, string])[], status: number,
    headers: Headers, choices: Choices = {}): boolean {
  if (/^https:/i.test(url) || choices.done?.includes(status) || choices.later?.includes(status) ||
      headers.has('Idempotency-Status')) return false;
  const page = mediaType(headers.get('Content-Type') ?? '') === 'text/html';
  if (![200, 511].includes(status) || !page) return [301, 302, 303, 307, 308].includes(status);
  const of = (name: string): string[] =>
    sent.filter(([one]) => one.toLowerCase() === name).map(([, value]) => value);
  const accepts = of('accept').flatMap((value) => value.split(',')).map(mediaType);
  const own = of('content-type').slice(0, 1).map(mediaType);
  return !accepts.includes('text/html') && [...accepts, ...own].some((one) => JSON_TYPE.test(one));
}

/** What an attempt's end means; status 0: there was no response. `inDoubt`: an earlier attempt
 * under this key may have been carried out. */
export function classify(status: number, headers: Headers, body: string, inDoubt = false,
    choices: Choices = {}): Kind {
  if (status === 0) return 'later';
  const code = errorCode(headers, body);
  const succeeds = status >= 200 && status <= 299;
  if (succeeds && successOf(headers) !== 'stands') return 'later';
  if (code === 'PROVIDER.duplicate' || succeeds) return 'done';
  if ([401, 407].includes(status) && code !== 'AUTH.signature') return 'credentials';
  if (code === 'CONFLICT.idempotency.duplicate') return 'final';
  const type = headers.get('Content-Type')?.split(';')[0]?.trim().toLowerCase();
  const problem = type === 'application/problem+json' ? treeOf(body) : undefined;
  const outstanding = [problem?.title, problem?.type].some((words) =>
    typeof words === 'string' && words.toLowerCase().includes('request is outstanding'));
  if (BUSY_WORDS.includes(`${status} ${code}`) || (status === 409 && outstanding)) return 'busy';
  const refused = status >= 400 && status <= 499;
  if (refused && code.endsWith('idempotency.in_progress')) return 'busy';
  if (refused && code.endsWith('.in_progress')) return 'busy_a_while';
  const end = inDoubt || leavesDoubt(status, headers, body) ? 'in_doubt' : 'final';
  const advice = adviceOf(headers, problem);
  if (advice === false) return end;
  if (advice) return status === 409 ? 'busy' : 'later';
  if (choices.done?.includes(status)) return 'done';
  if (choices.later?.includes(status)) return 'later';
  const limited = headers.has('Retry-After') || headers.get('x-ratelimit-remaining') === '0';
  if (status === 403 && limited) return 'later';
  if (status === 409 && inDoubt) return 'busy_a_while';
  if (status === 408) return 'at_once';
  if ([425, 429].includes(status)) return 'later';
  return status >= 500 && ![501, 505].includes(status) ? 'later' : end;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const LONG_DAY = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day';
const MONTH = `(?<month>${MONTHS.join('|')})`;
const TIME = '(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2})';
const DATES = [
  `${DAY}, (?<day>[0-9]{2}) ${MONTH} (?<year>[0-9]{4}) ${TIME} GMT`,
  `${LONG_DAY}, (?<day>[0-9]{2})-${MONTH}-(?<year>[0-9]{2}) ${TIME} GMT`,
  `${DAY} ${MONTH} (?<day>[0-9]{2}| [0-9]) ${TIME} (?<year>[0-9]{4})`,
].map((form) => new RegExp(`^${form}$`));

/** Any of the three forms of an HTTP date (RFC 9110 5.6.7). */
function dateMs(text: string, nowMs: number): number | undefined {
  const found = DATES.map((form) => form.exec(text)?.groups).find(Boolean);
  if (!found) return undefined;
  const [day, hour, minute, second] = ['day', 'hour', 'minute', 'second'].map((name) =>
    Number(found[name])) as [number, number, number, number];
  const month = MONTHS.indexOf(found['month'] ?? '');
  let year = Number(found['year']);
  const short = found['year']?.length === 2; // at most 50 years ahead, else it has passed
  if (short) {
    const latest = new Date(nowMs).getUTCFullYear() + 50;
    year = latest - ((latest - year) % 100);
  }
  const date = new Date(0);
  date.setUTCFullYear(year, month, day);
  if (day < 1 || date.getUTCDate() !== day || hour > 23 || minute > 59 || second > 60)
    return undefined;
  const at = date.setUTCHours(hour, minute, second);
  return short && at > nowMs + FIFTY_YEARS_MS ? 0 : at;
}

/** How many milliseconds Retry-After asks to wait: a date, or seconds, with a fraction or without
 * (rounded up), or a list of them, of which the largest counts: fetch joins several lines so. */
export function readHint(value: string | null, nowMs: number): number | undefined {
  const text = (value ?? '').replace(/^[ \t]+|[ \t]+$/g, '');
  const at = dateMs(text, nowMs);
  if (at !== undefined) return Math.min(Math.max(at - nowMs, 0), HINT_LONGEST_MS);
  const members = text.split(',').map((one) => one.replace(/^[ \t]+|[ \t]+$/g, ''));
  if (!members.every((one) => /^[0-9]+([.][0-9]+)?$/.test(one))) return undefined;
  const seconds = members.map((one) => Number(one.split('.')[0]) + (/[.].*[1-9]/.test(one) ? 1 : 0));
  return Math.min(Math.max(...seconds) * 1000, HINT_LONGEST_MS);
}

export type Ended = 'done' | 'final' | 'in_doubt' | 'credentials' | 'attempts' | 'deadline' | 'hint';
export type Decision = {retry: true; at: number} | {retry: false; ended: Ended};

/** The attempts at one operation; times are milliseconds since the first one began. */
export class Course {
  attempts = 1; // those that count
  uncounted = 0;
  inDoubt = false; // an attempt may have been carried out
  private busySince: number | undefined;
  private had408 = false;
  readonly deadlineMs: number; // the caller's own or the profile's, whichever is first

  constructor(readonly profile: Profile, readonly seed: bigint, deadlineMs = Infinity) {
    this.deadlineMs = Math.min(deadlineMs, profile.totalMs);
  }

  private scheduled(kind: Kind, now: number): number {
    const first408 = kind === 'at_once' && !this.had408;
    this.had408 ||= kind === 'at_once';
    if (first408 && !this.profile.by408) return now;
    if (!this.profile.offsetsS) return now + delayMs(this.profile, this.attempts + 1, this.seed);
    for (let n = this.attempts + 1; n <= this.profile.attempts; n++) {
      const at = offsetMs(this.profile, n, this.seed);
      if (at > now) return at;
    }
    return Infinity;
  }

  /** Spread upward, but not by that beyond the deadline. */
  private hinted(hint: number, now: number): number {
    const bounded = this.deadlineMs === Infinity ? Math.min(hint, HINT_MOST_MS) : hint;
    if (now + bounded >= this.deadlineMs) return now + bounded;
    const spread = Math.max(Math.floor(bounded / 10), Math.min(bounded, HINT_SPREAD_MS));
    const room = Math.floor(Math.min(spread, this.deadlineMs - now - bounded));
    return now + bounded + draw(this.seed, this.attempts + this.uncounted + 1, room);
  }

  /** Uses up no attempt: only the deadline ends it. */
  private busy(hint: number | undefined, now: number): Decision {
    this.busySince ??= now;
    const passed = Math.min(now - this.busySince, BUSY_LAST_MS);
    const wait = hint === undefined ? Math.max(passed, BUSY_FIRST_MS) : Math.max(hint, BUSY_LEAST_MS);
    const at = this.hinted(wait, now);
    this.attempts--;
    this.uncounted++;
    if (at <= this.deadlineMs) return {retry: true, at};
    return {retry: false, ended: hint === undefined ? 'deadline' : 'hint'};
  }

  decide(kind: Kind, hint: number | undefined, now: number): Decision {
    if (kind === 'done' || kind === 'final' || kind === 'in_doubt' || kind === 'credentials')
      return {retry: false, ended: kind};
    if (kind === 'busy_a_while' && now - (this.busySince ?? now) >= BUSY_MOST_MS)
      return {retry: false, ended: this.inDoubt ? 'in_doubt' : 'final'};
    if (kind === 'busy' || kind === 'busy_a_while') return this.busy(hint, now);
    this.busySince = undefined;
    if (this.attempts >= this.profile.attempts) return {retry: false, ended: 'attempts'};
    const at = this.scheduled(kind, now);
    if (at > this.deadlineMs || at === Infinity) return {retry: false, ended: 'deadline'};
    if (hint === undefined) return {retry: true, at};
    const hinted = this.hinted(hint, now);
    if (hinted > this.deadlineMs) return {retry: false, ended: 'hint'};
    return {retry: true, at: Math.max(at, hinted)};
  }
}

// ---- sending ----

export interface Options extends Choices {
  /** Whether a response says, by whatever it has, that it was not done. */
  notDone?: (headers: Headers, body: string) => boolean;
  headers?: Readonly<Record<string, string>>;
  key?: string;
  profile?: string;
  deadlineMs?: number; // of all attempts
  attemptMs?: number; // of one
}

/** How an operation ended. Where `inDoubt`, or under `idempotencyStatus` "unknown", it may have
 * happened: send it again under the same key, never another. */
export interface Result {
  key: string;
  ended: Ended;
  attempts: number;
  inDoubt: boolean;
  status: number; // of the last response; 0: there was none, or a portal's
  headers: Headers;
  body: string;
  code: string; // its error code
  idempotencyStatus: string; // pawl's word for it: stored, replayed, ..
}

/** Status 0: no whole response came. Redirects are not followed. */
async function attempt(method: string, url: string, body: string, headers: Record<string, string>,
    ms: number): Promise<{status: number; headers: Headers; body: string}> {
  try {
    const response = await fetch(url, {method, headers, redirect: 'manual',
      signal: AbortSignal.timeout(ms), ...(body ? {body} : {})});
    return {status: response.status, headers: response.headers, body: await response.text()};
  } catch {
    return {status: 0, headers: new Headers(), body: ''};
  }
}

/** Sends one operation until it is done or cannot be. */
export async function send(method: string, url: string, body = '', options: Options = {}
): Promise<Result> {
  const key = options.key || mintKey();
  const profile = PROFILES[options.profile ?? 'user_facing'];
  if (!profile) throw new Error(`no profile ${options.profile}`);
  const seed = crypto.getRandomValues(new BigUint64Array(1))[0]!;
  const course = new Course(profile, seed, options.deadlineMs);
  const began = performance.now();
  const now = (): number => Math.floor(performance.now() - began);
  for (;; course.attempts++) {
    const left = course.deadlineMs - now();
    const ms = Math.max(Math.min(options.attemptMs ?? 30_000, left), 1);
    let got = await attempt(method, url, body, {...options.headers, 'Idempotency-Key': key,
      'X-Request-Timeout': String(ms)}, ms);
    const undone = got.status !== 0 && options.notDone?.(got.headers, got.body);
    const portal = !undone &&
      isPortal(url, Object.entries(options.headers ?? {}), got.status, got.headers, options);
    if (portal) got = {status: 0, headers: new Headers(), body: ''};
    const kind = undone ? 'later' :
      classify(got.status, got.headers, got.body, course.inDoubt, options);
    const hint = readHint(got.headers.get('Retry-After'), Date.now());
    const decision = course.decide(kind, hint, now());
    course.inDoubt = kind !== 'done' && kind !== 'final' &&
      (course.inDoubt ||
        (leavesDoubt(got.status, got.headers, got.body) && !undone && !portal));
    if (!decision.retry)
      return {...got, key, code: errorCode(got.headers, got.body), ended: decision.ended,
        attempts: course.attempts + course.uncounted, inDoubt: course.inDoubt, idempotencyStatus: got.headers.get('Idempotency-Status') ?? ''};
    const wait = Math.max(decision.at - now(), 0);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
