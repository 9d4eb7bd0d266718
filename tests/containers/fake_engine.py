"""The part of the Docker engine API that testcontainers uses. Containers are local processes."""

import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tarfile
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

CONTAINER_ID = "c0ffee" + "0" * 58
ENTRY_POINT = [sys.executable, "-P", "-m", "pykbroker.cli.container"]
API = re.compile(r"^/v[\d.]+")


class Process:
    """A container as a process with a root directory; its ports are relayed."""

    def __init__(self, request: dict[str, Any], root: Path) -> None:
        self.request = request
        self.root = root
        self.variables = dict(it.split("=", 1) for it in request["Env"])
        self.exposed = sorted(request["ExposedPorts"])
        self.relays: dict[str, Relay] = {}
        self.running: subprocess.Popen[bytes] | None = None
        self.log = root / "log"
        self.log.touch()

    def start(self) -> None:
        """Starts the process on free ports, because it has no network namespace."""
        variables = {**os.environ, **self.variables, "PYKBROKER_DATA": str(self.root / "data")}
        variables["KAFKA_LISTENERS"] = re.sub(
            r"0\.0\.0\.0:\d+", "127.0.0.1:0", self.variables["KAFKA_LISTENERS"]
        )
        path = self.variables["PYKBROKER_ADVERTISED_LISTENERS_FILE"]
        variables["PYKBROKER_ADVERTISED_LISTENERS_FILE"] = f"{self.root}{path}"
        self.relays = {it: Relay(self.root / "port") for it in self.exposed}
        command = [*(self.request.get("Cmd") or []), "--port-file", str(self.root / "port")]
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [*ENTRY_POINT, *command], env=variables, stdout=log, stderr=log, cwd=self.root
            )

    def write(self, archive: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(self.root, filter="data")

    def end(self) -> None:
        if self.running is not None:
            self.running.terminate()
            self.running.wait(60)
        for relay in self.relays.values():
            relay.close()

    @property
    def status(self) -> str:
        if self.running is None:
            return "created"
        return "running" if self.running.poll() is None else "exited"

    def description(self) -> dict[str, Any]:
        ports = {
            it: [{"HostIp": "127.0.0.1", "HostPort": str(relay.port)}]
            for it, relay in self.relays.items()
        }
        return {
            "Id": CONTAINER_ID,
            "Name": "/a",
            "Image": "sha256:0",
            "State": {"Status": self.status, "Running": self.status == "running"},
            "Config": {"Tty": False, "Labels": self.request["Labels"]},
            "HostConfig": {"LogConfig": {"Type": "json-file"}},
            "NetworkSettings": {"Ports": ports, "Networks": {}},
        }


class Relay:
    """A port of the host that relays connections to the port of the container."""

    def __init__(self, port_file: Path) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port_file = port_file
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, suppress(OSError, ValueError):
            inside = int(self._port_file.read_text())
            with socket.create_connection(("127.0.0.1", inside)) as broker:
                back = threading.Thread(target=pump, args=(broker, client), daemon=True)
                back.start()
                pump(client, broker)
                back.join()

    def close(self) -> None:
        self._server.close()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copies data until one side closes, then closes both."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Engine(ThreadingHTTPServer):
    """An HTTP server on loopback that records its requests."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), RequestHandler)
        self.root = root
        self.process: Process | None = None
        self.ended: Process | None = None
        self.requests: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        if self.process is not None:
            self.process.end()


class RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def log_message(self, *_: object) -> None: ...

    def _path(self) -> str:
        path = API.sub("", self.path).partition("?")[0].replace(CONTAINER_ID, "ID")
        self.server.requests.append(f"{self.command} {path}")
        return path

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _respond(self, document: object = None, *, status: int = 200, data: bytes = b"") -> None:
        data = data or (b"" if document is None else json.dumps(document).encode())
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path, process = self._path(), self.server.process
        if path == "/version":
            self._respond({"ApiVersion": "1.45", "Version": "fake"})
        elif path.startswith("/images/"):
            self._respond({"Id": "sha256:0"})
        elif process is not None and path == "/containers/ID/json":
            self._respond(process.description())
        elif process is not None and path == "/containers/ID/logs":
            text = process.log.read_bytes()
            self._respond(data=struct.pack(">BxxxI", 1, len(text)) + text)
        else:
            self._respond({"message": f"not supported: {path}"}, status=404)

    def do_POST(self) -> None:
        path, body = self._path(), self._body()
        if path == "/containers/create":
            self.server.process = Process(json.loads(body), self.server.root)
            self._respond({"Id": CONTAINER_ID, "Warnings": []}, status=201)
        elif path == "/containers/ID/start":
            assert self.server.process is not None
            self.server.process.start()
            self._respond(status=204)
        else:
            self._respond({"message": f"not supported: {path}"}, status=404)

    def do_PUT(self) -> None:
        assert self._path() == "/containers/ID/archive"
        assert self.server.process is not None
        self.server.process.write(self._body())
        self._respond()

    def do_DELETE(self) -> None:
        assert self._path() == "/containers/ID"
        if self.server.process is None:
            self._respond({"message": f"No such container: {CONTAINER_ID}"}, status=404)
            return
        self.server.process.end()
        self.server.ended, self.server.process = self.server.process, None
        self._respond(status=204)
