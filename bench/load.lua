-- SPDX-License-Identifier: Apache-2.0
-- What wrk sends: POST /payments with a JSON body of about 200 bytes.
--   wrk ... -s load.lua URL -- first SALT            every request under a key of its own
--   wrk ... -s load.lua URL -- replay SALT N STRIDE  requests under the keys 1 to N, in turn by steps
--   wrk ... -s load.lua URL -- mix SALT              of ten requests the last repeats an earlier one
-- Ends with one line of JSON. One thread only (-t 1): keys are counted by it.

local REPEATED_AFTER = 999 -- requests, so that what is repeated has long been answered

local mode, salt, keys, stride, count

function init(args)
    mode, salt, count = args[1], args[2], 0
    keys, stride = tonumber(args[3]), tonumber(args[4])
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
end

local function body_of(key)
    return '{"order": "' .. key .. '", "amount": 12500, "currency": "EUR", ' ..
        '"customer": {"id": "cus_8731", "name": "Ada Lovelace"}, ' ..
        '"method": {"type": "card", "token": "tok_4f1d0a77"}, "capture": true}'
end

-- wrk makes one request, number 0, at its start that it does not send: nothing asks for that key.
local function number_of(n)
    if mode == "replay" then
        return n * stride % keys + 1
    elseif mode == "mix" and n % 10 == 0 and n > REPEATED_AFTER then
        return n - REPEATED_AFTER
    end
    return n
end

function request()
    local key = string.format("%s-%012d", salt, number_of(count))
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
