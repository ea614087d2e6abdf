// SPDX-License-Identifier: Apache-2.0
/*
 * An operation's effect and the record of its response in one transaction of yours, on PostgreSQL:
 * a retry gets the stored response, and the effect happens once. Copy this file into your project.
 *
 * It needs the schema (`pawl schema postgres | psql`), to which its owner admitted your role
 * (`SELECT pawl.admit('shop')`), and `pg`. Times are PostgreSQL's ('24 hours'; null: for ever).
 *
 *     const pawl = require('./pawl');
 *
 *     const op = await pawl.once(pool, {tenant, rule: 'refunds.create', key, payload: rawBody},
 *         async (client) => {
 *             const {rows} = await client.query('INSERT INTO refunds ... RETURNING id', [...]);
 *             return {status: 201, body: {id: rows[0].id}};
 *         });
 *     // op.status, op.headers, op.body (Buffer): the same for the first attempt and every retry.
 *     // op.isNew: this call ran the effect.
 *
 * The effect's transaction commits with its response; an exception rolls it back. It runs again
 * from its start after a serialization failure or a deadlock, so let it touch nothing but the
 * database.
 *
 * Express. What the handler sends leaves after COMMIT; a response of 500 or above, or
 * next(error), rolls back and is not stored. Queries go through req.pawl.client:
 *
 *     app.use(express.json({verify: (req, res, raw) => { req.rawBody = raw; }}));
 *     const once = pawl.express(pool, {rule: 'refunds.create', tenant: (req) => req.user.id});
 *     app.post('/refunds', once, async (req, res) => {
 *         await req.pawl.client.query('INSERT INTO refunds ...');
 *         res.status(201).json({id: 7});
 *     });
 *
 * A handler that never sends keeps its transaction: set idle_in_transaction_session_timeout.
 *
 * In a transaction that you commit yourself: `const op = await pawl.begin(client, {...})`, then, if
 * op.isNew, the effect and `await op.complete({status, headers, body})`. A begin that is neither
 * completed nor released makes COMMIT fail.
 *
 * - payload: the request's body as it came (Buffer or string), or a value for JSON.stringify; it is
 *   hashed as `pawl hash` does. undefined: not compared.
 * - op.release() instead of complete: commits what you did without a response; the next attempt
 *   with the key runs. In `once`: return undefined.
 * - Your response with a status of 4xx is stored like any other. Throw instead, and nothing is.
 * - Refused: the operation did not run, and there is no response to replay. It has the `status` and
 *   `code` of the response to send, and `decision`, such as 'in_progress' (another attempt has it
 *   and did not end within `wait`, '10 s': try again later) or 'mismatch' (the key was used for
 *   another payload).
 * - A connection that breaks during COMMIT leaves open whether it committed. Call again with the
 *   same key: you get the response, or the effect runs.
 * - Nothing that happens outside this database is rolled back with it.
 */
'use strict';

const crypto = require('node:crypto');

const RETRIED = new Set(['40001', '40P01']); // serialization failure, deadlock: it is rolled back
// pawl.begin's own: PostgreSQL reads the text of defaults three times for a call that lacks one.
const DEFAULTS = {ttl: '24 hours', once: null, once_ttl: null, duplicate: 'replay', tombstone: '0',
    wait: '10s', target_hash: null};
const CODES = {mismatch: 'payload_mismatch'}; // of a decision, where it has another name
const GONE = new Set(['result_expired', 'result_not_kept']);
// Of an attempt, not of the response.
const NOT_STORED = new Set(['connection', 'content-length', 'date', 'keep-alive',
    'transfer-encoding', 'idempotency-status']);

class Refused extends Error {
    constructor(decision, retryAfter) {
        super(decision);
        this.decision = decision;
        this.status = GONE.has(decision) ? 410 : 409;
        this.code = `CONFLICT.idempotency.${CODES[decision] || decision}`;
        this.retryAfter = retryAfter; // seconds; null: not known
    }
}

/* One that may run (isNew), or the response that is stored for it. */
class Operation {
    constructor(client, row) {
        Object.assign(this, {client, token: row.token, status: row.http_code, body: row.body,
            headers: row.headers || {}, resultRef: row.result_ref, firstAt: row.first_at});
        this.isNew = this.isOpen = row.decision === 'proceed';
    }

    /* What is neither Buffer nor string is sent as JSON. */
    async complete({status, headers = {}, body = null, resultRef = null}) {
        this.headers = {...headers};
        if (body !== null && typeof body !== 'string' && !Buffer.isBuffer(body)) {
            this.headers['Content-Type'] ||= 'application/json';
            body = JSON.stringify(body);
        }
        Object.assign(this, {status, resultRef, body: body === null ? null : Buffer.from(body)});
        await this.client.query('SELECT pawl.complete_bytes($1, $2, $3, $4::jsonb, $5)',
            [this.token, status, this.body, JSON.stringify(this.headers), resultRef]);
        this.isOpen = false;
    }

    async release() {
        await this.client.query('SELECT pawl.release($1)', [this.token]);
        this.isOpen = false;
    }
}

/* In the transaction that `client` is in. Other members are pawl.begin's: ttl, once, wait, ... */
async function begin(client, {tenant, rule, key, payload, ...options}) {
    const all = {...DEFAULTS, ...options};
    const names = Object.keys(all).map((name, i) => `, ${name} => $${i + 5}`).join('');
    const {rows: [row]} = await client.query(
        'SELECT *, extract(epoch FROM lease_left)::float8 AS retry_after ' +
        `FROM pawl.begin($1, $2, $3, payload_hash => $4${names})`,
        [tenant, rule, key, payloadHash(payload), ...Object.values(all)]);
    if (row.decision === 'proceed' || row.decision === 'replay') return new Operation(client, row);
    throw new Refused(row.decision, row.retry_after);
}

/* A client of the pool in a transaction; end(true) commits, end(false) rolls back. */
async function open(pool) {
    const client = await pool.connect();
    client.on('error', ignore); // its queries say so, too
    const end = async (commits) => {
        let broken;
        try {
            await client.query(commits ? 'COMMIT' : 'ROLLBACK');
        } catch (error) {
            broken = error;
            throw error;
        } finally {
            client.off('error', ignore);
            client.release(broken);
        }
    };
    try {
        await client.query('BEGIN');
    } catch (error) {
        await end(false).catch(ignore);
        throw error;
    }
    return {client, end};
}

function ignore() {}

async function attempt(pool, what, effect) {
    const {client, end} = await open(pool);
    let op;
    try {
        op = await begin(client, what);
        if (op.isNew) {
            const response = await effect(client, op);
            if (op.isOpen) await (response ? op.complete(response) : op.release());
        }
    } catch (error) {
        await end(false).catch(ignore);
        throw error;
    }
    await end(true);
    return op;
}

/* begin, the effect if it is new, COMMIT; ROLLBACK after an exception. */
async function once(pool, {attempts = 5, ...what}, effect) {
    for (let left = attempts - 1; ; left--) {
        try {
            return await attempt(pool, what, effect);
        } catch (error) {
            if (!RETRIED.has(error.code) || left <= 0) throw error;
            const most = 20 * 2 ** (attempts - left); // milliseconds
            await new Promise((done) => setTimeout(done, Math.random() * most));
        }
    }
}

/* Express middleware. tenant and key are functions of the request, or texts. */
function express(pool, {tenant, rule, key = (req) => req.get('Idempotency-Key'), ...options}) {
    const of = (source, req) => (typeof source === 'function' ? source(req) : source);
    return async (req, res, next) => {
        if (!of(key, req))
            return refuse(res, {status: 400, code: 'VALIDATION.idempotency.key_missing'});
        let transaction;
        try {
            transaction = await open(pool);
            const op = await begin(transaction.client, {tenant: of(tenant, req), rule,
                key: of(key, req), payload: req.rawBody ?? req.body, ...options});
            if (op.isNew) {
                req.pawl = {client: transaction.client, op};
                holdBack(res, (body) => settle(res, transaction, op, body));
                return next();
            }
            await transaction.end(false);
            res.set(op.headers).set('Idempotency-Status', 'replayed').status(op.status);
            return res.end(op.body);
        } catch (error) {
            if (transaction) await transaction.end(false).catch(ignore);
            return error instanceof Refused ? refuse(res, error) : next(error);
        }
    };
}

/* What the handler writes is kept until its end; then settled() says whether it may leave. */
function holdBack(res, settled) {
    const {write, end} = res, parts = [];
    const keep = (part, coding) => {
        if (part && typeof part !== 'function')
            parts.push(Buffer.from(part, typeof coding === 'string' ? coding : 'utf8'));
    };
    res.write = (part, coding) => (keep(part, coding), true);
    res.end = (part, coding) => {
        keep(part, coding);
        Object.assign(res, {write: () => false, end: () => res});
        const body = Buffer.concat(parts);
        settled(body).then(() => true, () => false).then((leaves) => {
            Object.assign(res, {write, end});
            if (leaves) res.end(body);
            else refuse(res, {status: 503, code: 'DEPENDENCY.store_unavailable', retryAfter: 1});
        });
        return res;
    };
}

async function settle(res, {end}, op, body) {
    if (res.statusCode >= 500) return end(false).catch(ignore);
    const kept = Object.entries(res.getHeaders()).filter(([name]) => !NOT_STORED.has(name));
    try {
        if (op.isOpen) await op.complete({status: res.statusCode, body,
            headers: Object.fromEntries(kept), resultRef: res.get('Location') ?? null});
    } catch (error) {
        await end(false).catch(ignore);
        throw error;
    }
    await end(true);
    if (!res.headersSent) res.set('Idempotency-Status', 'stored');
}

function refuse(res, {status, code, decision, retryAfter}) {
    if (res.headersSent) return res.destroy();
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    if (retryAfter || decision === 'in_progress')
        res.set('Retry-After', String(Math.max(1, Math.ceil(retryAfter || 1))));
    res.status(status).set('Error-Code', code).type('application/problem+json');
    return res.end(JSON.stringify({status, error_code: code}));
}

/* As `pawl hash`: SHA-256 of the canonical JSON, of the bytes where there is none. */
function payloadHash(payload) {
    if (payload === undefined || payload === null) return null;
    if (typeof payload !== 'string' && !Buffer.isBuffer(payload)) payload = JSON.stringify(payload);
    let raw = Buffer.from(payload);
    try {
        raw = Buffer.from(canonical(UTF8.decode(raw)));
    } catch {
        // not JSON that has one canonical form: the bytes count
    }
    return crypto.createHash('sha256').update(raw).digest('hex');
}

const UTF8 = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});
const KINDS = [/([{}[\],:])/, /("(?:[^"\\\u0000-\u001f]|\\.)*")/, /(true|false|null)/,
    /(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)/];
const TOKEN = new RegExp(`[ \\t\\r\\n]*(?:${KINDS.map((kind) => kind.source).join('|')})`, 'y');

/* JSON.parse would lose digits and members that come twice. */
function canonical(text) {
    let at = 0;
    const take = () => {
        TOKEN.lastIndex = at;
        const token = TOKEN.exec(text) || fail('not JSON');
        at = TOKEN.lastIndex;
        return {mark: token[1], string: token[2], literal: token[3], number: token[4]};
    };
    const string = (token) => {
        const value = JSON.parse(token.string ?? fail('not a string'));
        return /\p{Surrogate}/u.test(value) ? fail('a lone surrogate') : value;
    };
    const items = (close, one) => { // what stands between commas
        const found = [], from = at;
        if (take().mark === close) return found;
        at = from;
        for (;;) {
            found.push(one(take()));
            const {mark} = take();
            if (mark === close) return found;
            if (mark !== ',') fail('no comma');
        }
    };
    const value = (token, depth) => {
        if (token.string) return JSON.stringify(string(token));
        if (token.literal) return token.literal;
        if (token.number) return number(token.number);
        if (depth === 200) fail('nested too deeply');
        if (token.mark === '[') return `[${items(']', (item) => value(item, depth + 1))}]`;
        if (token.mark !== '{') fail('not a value');
        const members = items('}', (token) => {
            const name = string(token);
            if (take().mark !== ':') fail('no colon');
            return [name, value(take(), depth + 1)];
        });
        if (new Set(members.map(([name]) => name)).size < members.length) fail('a member twice');
        members.sort(([a], [b]) => (a < b ? -1 : 1));
        return `{${members.map(([name, item]) => `${JSON.stringify(name)}:${item}`)}}`;
    };
    const whole = value(take(), 0);
    return /^[ \t\r\n]*$/.test(text.slice(at)) ? whole : fail('more than one value');
}

/* Laid out as ECMAScript prints numbers, all digits kept. */
function number(literal) {
    const [, sign, whole, fraction = '', exponent = '0'] =
        /^(-?)(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(literal);
    const significant = (whole + fraction).replace(/^0+/, '');
    const digits = significant.replace(/0+$/, '');
    if (!digits) return '0';
    const point = significant.length - fraction.length + Number(exponent);
    if (digits.length > 1000 || !(Math.abs(point - 1) <= 9999)) fail('a number out of bounds');
    const dotted = (n) => (digits.length > n ? `${digits.slice(0, n)}.${digits.slice(n)}` : digits);
    if (point > 0 && point <= 21) return sign + dotted(point).padEnd(point, '0');
    if (point > -6 && point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
    return `${sign}${dotted(1)}e${point > 0 ? '+' : ''}${point - 1}`;
}

function fail(why) {
    throw new SyntaxError(why);
}

module.exports = {Refused, begin, once, express, payloadHash};
