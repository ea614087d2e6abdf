-- SPDX-License-Identifier: Apache-2.0
-- One of the bench's peers: once a key by nginx and Redis. A claim with SET NX, the request passed
-- on, its response stored under the same key, and told again to whoever comes later.
local redis = require "nginx.redis"
local cjson = require "cjson"

local DAY = 24 * 3600
local key = ngx.var.http_idempotency_key
if not key then
    return ngx.exit(400)
end
ngx.req.read_body()
local payload = ngx.md5(ngx.var.request_method .. " " .. ngx.var.request_uri .. "\n" ..
    (ngx.req.get_body_data() or ""))

local store = redis:new()
store:set_timeout(10000)
assert(store:connect("127.0.0.1", tonumber(ngx.var.redis_port)))
-- Claims what is absent, and otherwise says what is there, in one round trip.
local found = assert(store:set("once:" .. key, cjson.encode({ payload = payload }),
    "NX", "GET", "EX", DAY))
local record
if found == ngx.null then
    local answer = ngx.location.capture("/upstream" .. ngx.var.request_uri,
        { method = ngx["HTTP_" .. ngx.var.request_method], always_forward_body = true })
    record = { payload = payload, status = answer.status, body = answer.body,
               type = answer.header["Content-Type"], location = answer.header["Location"] }
    assert(store:set("once:" .. key, cjson.encode(record), "EX", DAY))
else
    record = cjson.decode(found)
end
store:set_keepalive(60000, 64)

if record.payload ~= payload then
    return ngx.exit(422)
elseif not record.status then
    return ngx.exit(409)
end
ngx.status = record.status
ngx.header["Content-Type"] = record.type
ngx.header["Location"] = record.location
ngx.header["Content-Length"] = #record.body
ngx.print(record.body)
