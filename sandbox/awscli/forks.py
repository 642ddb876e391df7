"""Makes the calls of aws.sh: each in a fork of a process that has the AWS CLI imported.

A call is a connection: the folder, the number of variables of the environment and these, the number of arguments and
these, each ended by NUL. The response is a line with the exit code and two lengths, then standard output and standard error.
"""

import gc
import os
import signal
import socket
import sys
import tempfile

for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]  # those of the caller count

from awscli.clidriver import create_clidriver  # noqa: E402

session = create_clidriver().session
for service in ("ec2", "eks", "events", "iam", "sqs", "sts"):
    session.get_service_model(service)
models = session.get_component("data_loader")


class Gone(Exception):
    """The client has gone before it said what it wants."""


def read_text(stream):
    text = b""
    while True:
        one = stream.read(1)
        if not one:
            raise Gone
        if one == b"\0":
            return text.decode()
        text += one


def read_list(stream):
    return [read_text(stream) for _ in range(int(read_text(stream)))]


def make_call(arguments):
    """Runs the CLI in this process, and returns exit code, output and errors. Its models are read already."""
    driver = create_clidriver()
    driver.session.register_component("data_loader", models)
    files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
    for file, number in zip(files, (1, 2)):
        os.dup2(file.fileno(), number)
    try:
        code = driver.main(arguments)
    except SystemExit as e:
        code = e.code
    sys.stdout.flush()
    sys.stderr.flush()
    for file in files:
        file.seek(0)
    return code or 0, files[0].read(), files[1].read()


def serve(connection):
    stream = connection.makefile("rb")
    try:
        os.chdir(read_text(stream))
        os.environ.update(variable.split("=", 1) for variable in read_list(stream))
        code, out, err = make_call(read_list(stream))
        connection.sendall(b"%d %d %d\n" % (code, len(out), len(err)) + out + err)
    except (Gone, OSError):
        pass  # it was killed, which is what some tests are about


signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # calls are not waited for
gc.disable()
gc.freeze()  # or each fork would copy what the collector touches
parent = os.getppid()
listener = socket.create_server(("127.0.0.1", 0), backlog=100)
listener.settimeout(5)
print(listener.getsockname()[1], flush=True)
while os.getppid() == parent:  # and no longer than the tests
    try:
        accepted, _ = listener.accept()
    except TimeoutError:
        continue
    if os.fork() == 0:
        listener.close()
        accepted.setblocking(True)
        serve(accepted)
        os._exit(0)
    accepted.close()
