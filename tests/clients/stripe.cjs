// SPDX-License-Identifier: Apache-2.0
// One refund by stripe-node as it comes: PORT RETRIES KEY AMOUNT; no KEY: its own. Prints JSON.
'use strict';
const Stripe = require('stripe');

const [port, retries, key, amount] = process.argv.slice(2);
const stripe = new Stripe('sk_test_pawl', {
  host: '127.0.0.1', port, protocol: 'http', maxNetworkRetries: Number(retries),
});

// stripe-node leaves the answers that it retried unread, and their connections hold the process.
function print(result) {
  process.stdout.write(JSON.stringify(result), () => process.exit(0));
}

stripe.refunds.create({charge: 'ch_1', amount}, key ? {idempotencyKey: key} : {}).then(
  (refund) => print({id: refund.id, status: refund.lastResponse.statusCode}),
  (error) => print({error: error.type, code: error.code, status: error.statusCode}));
