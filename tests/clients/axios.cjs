// SPDX-License-Identifier: Apache-2.0
// One refund by axios with axios-retry: PORT RETRIES KEY AMOUNT. Prints JSON.
'use strict';
const axios = require('axios');
const axiosRetry = require('axios-retry').default;

const [port, retries, key, amount] = process.argv.slice(2);
const client = axios.create({baseURL: `http://127.0.0.1:${port}`});
// A POST is retried only where the application says that it may be: here its key makes it so.
axiosRetry(client, {
  retries: Number(retries),
  retryDelay: axiosRetry.exponentialDelay,
  retryCondition: (error) => axiosRetry.isNetworkError(error) || axiosRetry.isRetryableError(error)
      || (error.response?.headers['error-code'] ?? '').endsWith('.in_progress'),
});

function print(result) {
  console.log(JSON.stringify(result));
}

client.post('/v1/refunds', {charge: 'ch_1', amount}, {
  headers: {'Authorization': 'Bearer sk_test_pawl', 'Idempotency-Key': key},
}).then(
  (answer) => print({id: answer.data.id, status: answer.status}),
  (error) => print({error: error.code, code: error.response?.data?.error_code,
    status: error.response?.status}));
