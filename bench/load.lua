-- SPDX-License-Identifier: Apache-2.0
-- What wrk sends: POST /payments with a JSON body of about 200 bytes.
--   wrk ... -s load.lua URL -- first SALT      every request under a key of its own
--   wrk ... -s load.lua URL -- replay SALT N   requests under N keys, in turn
-- Ends with one line of JSON. One thread only (-t 1): keys are counted by it.

local mode, salt, keys, count

function init(args)
    mode, salt, keys, count = args[1], args[2], tonumber(args[3]), 0
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
end

local function body_of(key)
    return '{"order": "' .. key .. '", "amount": 12500, "currency": "EUR", ' ..
        '"customer": {"id": "cus_8731", "name": "Ada Lovelace"}, ' ..
        '"method": {"type": "card", "token": "tok_4f1d0a77"}, "capture": true}'
end

function request()
    -- wrk makes one request at its start that it does not send: no replay asks for that key.
    local n = mode == "replay" and count % keys + 1 or count
    local key = string.format("%s-%012d", salt, n)
    count = count + 1
    wrk.headers["Idempotency-Key"] = key
    return wrk.format(nil, nil, nil, body_of(key))
end

function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        '{"requests": %d, "us": %d, "p50_us": %d, "p99_us": %d, "not_2xx": %d, "broken": %d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
