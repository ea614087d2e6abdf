// SPDX-License-Identifier: Apache-2.0
// The application of test_node_binding.py: refunds by the middleware and by `once`, on the database
// of $DATABASE_URL. It prints its port. ?die=before and ?die=after kill it around its COMMIT.
'use strict';

const express = require('express');
const {Pool} = require('pg');
const pawl = require('../../bindings/node/pawl');

const pool = new Pool({connectionString: process.env.DATABASE_URL, max: 20});
const strict = new Pool({connectionString: process.env.DATABASE_URL,
    options: '-c default_transaction_isolation=serializable'});
const app = express();
app.use(express.json({verify: (req, res, raw) => { req.rawBody = raw; }}));

const tenant = (req) => req.get('X-Tenant') || 'm1';

function die(req, when) {
    if (req.query.die === when) process.kill(process.pid, 'SIGKILL');
}

async function refund(client, amount) {
    const {rows} = await client.query(
        'INSERT INTO refunds (amount) VALUES ($1) RETURNING id', [amount]);
    return `rf_${rows[0].id}`;
}

async function handle(req, res) {
    const id = await refund(req.pawl.client, req.body.amount);
    if (req.query.fail) return res.status(Number(req.query.fail)).json({error: 'no'});
    die(req, 'before');
    return res.status(201).location(`/refunds/${id}`).json({id});
}

app.post('/refunds', pawl.express(pool, {tenant, rule: 'refunds.create', wait: '30 s'}),
    (req, res, next) => handle(req, res).catch(next));
app.post('/impatient', pawl.express(pool, {tenant, rule: 'refunds.create', wait: '0'}),
    (req, res, next) => handle(req, res).catch(next));

app.post('/wrapped', async (req, res) => {
    let runs = 0;
    try {
        const op = await pawl.once(req.query.strict ? strict : pool, {tenant: tenant(req),
            rule: 'wrapped', wait: '30 s', key: req.get('Idempotency-Key'), payload: req.rawBody,
        }, async (client) => {
            runs++;
            if (req.query.strict) await client.query('UPDATE balance SET cents = cents - 1');
            const id = await refund(client, req.body.amount);
            if (req.query.fail) throw new Error('no');
            die(req, 'before');
            return req.query.nothing ? undefined : {status: 201, body: {id}};
        });
        die(req, 'after');
        res.set(op.headers).set('X-Runs', String(runs)).status(op.status).end(op.body);
    } catch (error) {
        res.status(error.status || 500).json({code: error.code, decision: error.decision});
    }
});

const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));
