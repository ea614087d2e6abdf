#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A payment provider for the example: POST /payouts pays once for each Idempotency-Key, and tells
it again with `"duplicate": true`. The first `--lose N` payouts are made, and their responses lost,
as by a timeout. GET /payouts lists what was paid.

usage: provider.py PORT [--lose N]
"""
import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Provider(ThreadingHTTPServer):
    def __init__(self, port: int, lose: int):
        super().__init__(("127.0.0.1", port), Handler)
        self.lock, self.paid, self.lose = threading.Lock(), {}, lose

    def pay(self, key: str, payout: dict) -> tuple[dict, bool]:
        """The payout, and whether the client is to hear of it."""
        with self.lock:
            duplicate = key in self.paid
            self.paid.setdefault(key, {"id": f"rf_{123 + len(self.paid)}", **payout})
            lost = self.lose > 0
            self.lose -= lost
            return {**self.paid[key], "duplicate": duplicate}, not lost


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass

    def respond(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.respond(200, list(self.server.paid.values()))

    def do_POST(self) -> None:
        payout = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        told, heard = self.server.pay(self.headers["Idempotency-Key"], payout)
        if heard:
            self.respond(200 if told["duplicate"] else 201, told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--lose", type=int, default=0)
    options = parser.parse_args()
    server = Provider(options.port, options.lose)
    print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
