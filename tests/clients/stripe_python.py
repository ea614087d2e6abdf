# SPDX-License-Identifier: Apache-2.0
"""One refund by stripe-python: PORT RETRIES KEY AMOUNT; no KEY: its own. Prints JSON."""
from __future__ import annotations

import json
import sys

import stripe

port, retries, key, amount = sys.argv[1:]
stripe.api_key = "sk_test_pawl"
stripe.api_base = f"http://127.0.0.1:{port}"
stripe.max_network_retries = int(retries)
given = {"idempotency_key": key} if key else {}
try:
    refund = stripe.Refund.create(charge="ch_1", amount=amount, **given)
    result = {"id": refund.id, "status": refund.last_response.code}
except stripe.error.StripeError as error:
    told = (error.json_body or {}).get("error", {})
    result = {"error": type(error).__name__, "code": told.get("code"), "status": error.http_status}
print(json.dumps(result))
