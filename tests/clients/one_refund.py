# SPDX-License-Identifier: Apache-2.0
"""One refund by examples/clients/pawl_client.py: PORT RETRIES KEY AMOUNT. Prints JSON."""
from __future__ import annotations

import json
import sys

from pawl_client import send

port, _, key, amount = sys.argv[1:]
result = send("POST", f"http://127.0.0.1:{port}/v1/refunds",
              json.dumps({"charge": "ch_1", "amount": amount}).encode(),
              {"Authorization": "Bearer sk_test_pawl", "Content-Type": "application/json"},
              key=key, profile="user_facing")
body = json.loads(result.body) if result.body else {}
print(json.dumps({"id": body.get("id"), "code": result.code or None, "status": result.status}))
