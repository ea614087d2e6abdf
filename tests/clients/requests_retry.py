# SPDX-License-Identifier: Apache-2.0
"""One refund by requests with urllib3's Retry: PORT RETRIES KEY AMOUNT. Prints JSON."""
from __future__ import annotations

import json
import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

port, retries, key, amount = sys.argv[1:]
session = requests.Session()
session.trust_env = False
# POST is not among the methods that Retry takes for idempotent: the key makes it so.
session.mount("http://", HTTPAdapter(max_retries=Retry(
    int(retries), backoff_factor=0.2, allowed_methods=None, raise_on_status=False,
    status_forcelist=(429, 500, 502, 503, 504))))
try:
    answer = session.post(f"http://127.0.0.1:{port}/v1/refunds",
                          json={"charge": "ch_1", "amount": amount},
                          headers={"Authorization": "Bearer sk_test_pawl", "Idempotency-Key": key})
    body = answer.json()
    result = {"id": body.get("id"), "code": body.get("error_code"), "status": answer.status_code}
except requests.RequestException as error:
    result = {"error": type(error).__name__}
print(json.dumps(result))
