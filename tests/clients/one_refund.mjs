// SPDX-License-Identifier: Apache-2.0
// One refund by examples/clients/pawl_client.ts: PORT RETRIES KEY AMOUNT. Prints JSON.
const {send} = await import(process.env.PAWL_CLIENT);

const [port, , key, amount] = process.argv.slice(2);
const result = await send('POST', `http://127.0.0.1:${port}/v1/refunds`,
  JSON.stringify({charge: 'ch_1', amount}), {key, profile: 'user_facing', headers: {
    'Authorization': 'Bearer sk_test_pawl', 'Content-Type': 'application/json'}});
const body = result.body ? JSON.parse(result.body) : {};
console.log(JSON.stringify({id: body.id, code: result.code || undefined, status: result.status}));
