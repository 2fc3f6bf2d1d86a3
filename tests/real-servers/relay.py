"""Stands before a server on this machine, hands every request on, and writes down what was asked and answered.

usage: relay.py PORT TO_PORT LOG     LOG gets one JSON object a line: path, request, status, reply, seconds
"""

import http.client
import json
import select
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, to_port, log = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
writing = threading.Lock()


def read(body):
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode("utf-8", "replace")


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def hand_on(self):
        began = time.monotonic()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        server = http.client.HTTPConnection("127.0.0.1", to_port)
        server.request(self.command, self.path, body or None, headers)
        # Whoever hangs up here hangs up there: a server stops its work for a client that is gone.
        while not select.select([server.sock], [], [], 0.1)[0]:
            if self.is_gone():
                server.close()
                self.close_connection = True
                return self.note(began, body, None, b"the client hung up")
        answer = server.getresponse()
        reply = answer.read()
        server.close()
        self.note(began, body, answer.status, reply)
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def is_gone(self):
        readable = select.select([self.connection], [], [], 0)[0]
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def note(self, began, body, status, reply):
        entry = {"method": self.command, "path": self.path, "request": read(body), "status": status,
                 "reply": read(reply), "seconds": round(time.monotonic() - began, 3)}
        with writing, open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    do_GET = do_POST = hand_on

    def log_message(self, *words):
        pass


ThreadingHTTPServer(("127.0.0.1", port), Relay).serve_forever()
