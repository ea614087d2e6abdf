// SPDX-License-Identifier: Apache-2.0
// One of the bench's peers: Express before the same upstream as pawl.
//   node server.js PORT UPSTREAM plain | express-idempotency
//   node server.js PORT UPSTREAM node-idempotency REDIS
//   node server.js PORT UPSTREAM express-postgres URL
// PORT, UPSTREAM and REDIS are ports on 127.0.0.1. One process: express-idempotency keeps its
// records in it.
'use strict';
const crypto = require('node:crypto');
const http = require('node:http');
const express = require('express');

const [port, upstreamPort, kind, store] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true });

// Sends the request on; resolves to { status, headers, body }.
function forward(req) {
  return new Promise((resolve, reject) => {
    const sent = http.request({
      agent, host: '127.0.0.1', port: upstreamPort, method: req.method, path: req.originalUrl,
      headers: { 'Content-Type': 'application/json', 'Content-Length': req.raw.length,
                 'Idempotency-Key': req.get('Idempotency-Key') },
    }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => resolve({
        status: answer.statusCode,
        headers: { 'Content-Type': answer.headers['content-type'],
                   'Location': answer.headers.location },
        body: Buffer.concat(parts).toString(),
      }));
    });
    sent.on('error', reject);
    sent.end(req.raw);
  });
}

const tell = (res, answer) => res.status(answer.status).set(answer.headers).send(answer.body);

function plain(app) {
  app.post('*', (req, res, next) =>
    forward(req).then((answer) => tell(res, answer)).catch(next));
}

// The adapter that the package brings along scans an array of all records at each request. This
// one finds a record in a map, so that what is measured is the middleware.
class MapAdapter {
  constructor() { this.records = new Map(); }
  async findByIdempotencyKey(key) { return this.records.get(key) ?? null; }
  async create(record) { this.records.set(record.idempotencyKey, record); }
  async update(record) { this.records.set(record.idempotencyKey, record); }
  async delete(key) { this.records.delete(key); }
}

function expressIdempotency(app) {
  const { idempotency, getSharedIdempotencyService } = require('express-idempotency');
  app.use(idempotency({ dataAdapter: new MapAdapter() }));
  app.post('*', (req, res, next) => {
    if (!getSharedIdempotencyService().isHit(req))
      forward(req).then((answer) => tell(res, answer)).catch(next);
  });
}

async function nodeIdempotency(app) {
  const { Idempotency } = require('@node-idempotency/core');
  const { RedisStorageAdapter } = require('@node-idempotency/storage-adapter-redis');
  const storage = new RedisStorageAdapter({ url: `redis://127.0.0.1:${store}` });
  await storage.connect();
  const idempotency = new Idempotency(storage);

  async function serve(req, res) {
    const request = { method: req.method, path: req.path, headers: req.headers, body: req.body };
    const found = await idempotency.onRequest(request);
    if (found)
      return tell(res, { ...found.additional, body: found.body });
    const { body, ...additional } = await forward(req);
    // Stored before it is told, as pawl does.
    await idempotency.onResponse(request, { body, additional });
    return tell(res, { ...additional, body });
  }
  app.post('*', (req, res, next) => serve(req, res).catch(next));
}

// The table that one writes by hand: a row is a claim until it has a status.
const TABLE = `CREATE TABLE IF NOT EXISTS request (
  key text PRIMARY KEY, payload bytea NOT NULL, status integer, headers jsonb, body text,
  created_at timestamptz NOT NULL DEFAULT now())`;
const CLAIM = 'INSERT INTO request (key, payload) VALUES ($1, $2) ON CONFLICT DO NOTHING';
const STORE = 'UPDATE request SET status = $2, headers = $3, body = $4 WHERE key = $1';
const FIND = 'SELECT payload, status, headers, body FROM request WHERE key = $1';

async function expressPostgres(app) {
  const { Pool } = require('pg');
  const pool = new Pool({ connectionString: store, idleTimeoutMillis: 0 });
  await pool.query(TABLE);
  const query = (name, text, ...values) => pool.query({ name, text, values });

  async function serve(req, res) {
    const key = req.get('Idempotency-Key');
    const payload = crypto.createHash('sha256').update(`${req.method} ${req.originalUrl}\n`)
      .update(req.raw).digest();
    if ((await query('claim', CLAIM, key, payload)).rowCount === 1) {
      const answer = await forward(req);
      await query('store', STORE, key, answer.status, answer.headers, answer.body);
      return tell(res, answer);
    }
    const { rows: [found] } = await query('find', FIND, key);
    if (!found.payload.equals(payload))
      return res.status(422).end();
    return found.status ? tell(res, found) : res.status(409).end();
  }
  app.post('*', (req, res, next) => serve(req, res).catch(next));
}

const kinds = { plain, 'express-idempotency': expressIdempotency,
                'node-idempotency': nodeIdempotency, 'express-postgres': expressPostgres };

async function main() {
  const app = express();
  app.disable('etag');
  app.disable('x-powered-by');
  app.use(express.json({ verify: (req, res, bytes) => { req.raw = bytes; } }));
  await kinds[kind](app);
  const server = app.listen(Number(port), '127.0.0.1', 1024);
  server.keepAliveTimeout = 75000;
}

main();
