// SPDX-License-Identifier: Apache-2.0
/*
 * An operation's effect and the record of its response in one transaction of yours, on SQLite: a
 * retry gets the stored response, and the effect happens once. Copy this file into your project.
 *
 * It needs pawl's extension, and node:sqlite (Node.js 22.13 or later) or better-sqlite3:
 *
 *     const pawl = require('./pawl_sqlite');
 *     const db = new DatabaseSync('shop.db', {allowExtension: true, timeout: 10000});
 *     pawl.load(db, '/usr/lib/x86_64-linux-gnu/pawl/pawl.so');
 *
 *     const op = pawl.once(db, {tenant, rule: 'refunds.create', key, payload: rawBody}, () => {
 *         const {id} = db.prepare('INSERT INTO refunds ... RETURNING id').get(charge, amount);
 *         return {status: 201, body: {id}};
 *     });
 *     res.status(op.status).set(op.headers).send(op.body); // the same for every retry
 *     // op.isNew: this call ran the effect.
 *
 * The tables are made in your file at the first call. Times are '24h', '7d', seconds, or null: for
 * ever.
 *
 * `once` begins (BEGIN IMMEDIATE), commits at its end and rolls back after an exception. The effect
 * is synchronous, as the database is: with an `await` in it, statements of other requests would be
 * in its transaction. So an effect that returns a promise is rolled back.
 *
 * In a transaction that you commit yourself: `const op = pawl.begin(db, {...})`, then, if op.isNew,
 * the effect and `op.complete({status, headers, body})`. A begin that is neither completed nor
 * released makes COMMIT fail.
 *
 * - payload: the request's body as it came (Buffer or string), or a value for JSON.stringify; it is
 *   hashed as `pawl hash` does. undefined: not compared.
 * - op.release() instead of complete: commits what you did without a response; the next attempt
 *   with the key runs. In `once`: return undefined.
 * - Your response with a status of 4xx is stored like any other. Throw instead, and nothing is.
 * - Headers of the connection and of this attempt (Connection, Date, Set-Cookie, ...) are not
 *   stored.
 * - Refused: the operation did not run, and there is no response to replay. It has the `status` and
 *   `code` of the response to send, and `decision`, such as 'mismatch' (the key was used for
 *   another payload).
 * - A file that other connections keep locked for longer than `timeout` makes `once` throw: nothing
 *   was done, and the same call again is safe.
 * - Nothing that happens outside this file is rolled back with it.
 */
'use strict';

const CODES = {mismatch: 'payload_mismatch'}; // of a decision, where it has another name
const GONE = new Set(['result_expired', 'result_not_kept']);

class Refused extends Error {
    constructor(decision) {
        super(decision);
        this.decision = decision;
        this.status = GONE.has(decision) ? 410 : 409;
        this.code = `CONFLICT.idempotency.${CODES[decision] || decision}`;
    }
}

/* Gives a connection pawl's functions, and has it enforce foreign keys: so that a COMMIT which
 * forgets to complete is refused. */
function load(db, extension) {
    db.loadExtension(extension);
    if (db.enableLoadExtension) db.enableLoadExtension(false);
    db.exec('PRAGMA foreign_keys = ON');
}

/* One that may run (isNew), or the response that is stored for it. */
class Operation {
    constructor(db, row) {
        Object.assign(this, {db, token: row.token, status: row.http_code,
            headers: JSON.parse(row.headers || '{}'), resultRef: row.result_ref,
            body: Buffer.from(row.body ?? []), firstAt: row.first_at});
        this.isNew = this.isOpen = row.decision === 'proceed';
    }

    /* What is neither Buffer nor string is sent as JSON. */
    complete({status, headers = {}, body = null, resultRef = null}) {
        this.headers = Object.fromEntries(Object.entries(headers)
            .map(([name, value]) => [name, String(value).trim()]));
        if (body !== null && typeof body !== 'string' && !Buffer.isBuffer(body)) {
            this.headers['Content-Type'] ||= 'application/json';
            body = JSON.stringify(body);
        }
        Object.assign(this, {status, resultRef, body: Buffer.from(body ?? [])});
        this.db.prepare('SELECT pawl_complete(?, ?, ?, ?, ?)')
            .get(this.token, status, this.body, JSON.stringify(this.headers), resultRef);
        this.isOpen = false;
    }

    release() {
        this.db.prepare('SELECT pawl_release(?)').get(this.token);
        this.isOpen = false;
    }
}

/* In the transaction that `db` is in. Other members are pawl_begin's: ttl, once, duplicate, ... */
function begin(db, {tenant, rule, key, payload, ...options}) {
    if (payload !== undefined && typeof payload !== 'string' && !Buffer.isBuffer(payload))
        payload = JSON.stringify(payload);
    const {hash} = db.prepare('SELECT pawl_payload_hash(?) AS hash').get(payload ?? null);
    const all = {payload_hash: hash, ...options};
    const row = db.prepare(
        'SELECT decision, token, http_code, headers, body, result_ref, first_at FROM ' +
        `pawl_begin(?, ?, ?) WHERE ${Object.keys(all).map((name) => `${name} = ?`).join(' AND ')}`)
        .get(tenant, rule, key, ...Object.values(all));
    if (row.decision === 'proceed' || row.decision === 'replay') return new Operation(db, row);
    throw new Refused(row.decision);
}

function isInTransaction(db) {
    return db.isTransaction ?? db.inTransaction; // node:sqlite, better-sqlite3
}

/* BEGIN IMMEDIATE, begin, the effect if it is new, COMMIT; ROLLBACK after an exception. */
function once(db, what, effect) {
    if (isInTransaction(db))
        throw new Error('pawl.once needs a connection without an open transaction');
    db.exec('BEGIN IMMEDIATE');
    try {
        const op = begin(db, what);
        const response = op.isNew ? effect(op) : undefined;
        if (typeof response?.then === 'function')
            throw new TypeError('the effect of pawl.once must be synchronous');
        if (op.isOpen) {
            if (response) op.complete(response);
            else op.release();
        }
        db.exec('COMMIT');
        return op;
    } catch (error) {
        if (isInTransaction(db)) db.exec('ROLLBACK');
        throw error;
    }
}

module.exports = {Refused, load, begin, once};
