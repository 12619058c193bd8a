"""A real Kafka broker for as long as it is needed: the one of the tests, whose jars Maven brings once.

    with Broker() as address: ...

KAFKA_BROKERS names another one, which must let topics be created and deleted.
"""
import contextlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

import confluent_kafka.admin as admin

import store

VERSION = "kafka-4.1.0"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.io.buffer.size=65536
message.max.bytes=16777216
"""
LOGGING = """<Configuration><Appenders><Console name="out"><PatternLayout pattern="%d %p %m%n"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers></Configuration>"""


def jars():
    """The directory that the tests keep Kafka's jars in; Maven fills it once."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    home = os.path.join(cache, "lca-stream", "kafka", VERSION)
    found = os.path.join(home, "jars")
    if not os.path.isdir(found):
        part = os.path.join(home, "part-quality")
        os.makedirs(part, exist_ok=True)
        pom = os.path.join(store.ROOT, "internal", "kafkatest", "poms", VERSION + ".xml")
        shutil.copy(pom, os.path.join(part, "pom.xml"))
        subprocess.run(["mvn", "-B", "-q", "-f", os.path.join(part, "pom.xml"), COPY, "-DincludeScope=runtime",
                        "-DoutputDirectory=" + os.path.join(part, "jars")], check=True)
        os.rename(os.path.join(part, "jars"), found)
    return found


def hold():
    """A port, and what holds it while its program starts: the UDP port of that number, as in internal/testtools."""
    while True:
        held, port = socket.socket(type=socket.SOCK_DGRAM), random.randrange(12000, 32000)
        try:
            held.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                return port, held
        except OSError:
            held.close()


@contextlib.contextmanager
def Broker():
    """The address of a broker that ends with the block."""
    if os.environ.get("KAFKA_BROKERS"):
        yield os.environ["KAFKA_BROKERS"]
        return
    (port, held), (controller, held_too) = hold(), hold()
    with held, held_too, tempfile.TemporaryDirectory(prefix="lca-quality-") as folder:
        properties, logging = os.path.join(folder, "server.properties"), os.path.join(folder, "log4j2.xml")
        with open(properties, "w") as f:
            f.write(PROPERTIES.format(port=port, controller=controller, folder=folder))
        with open(logging, "w") as f:
            f.write(LOGGING)
        java = ["java", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dlog4j2.configurationFile=" + logging, "-cp", jars() + "/*"]
        subprocess.run(java + ["kafka.tools.StorageTool", "format", "-t", "bGNhLXN0cmVhbS10ZXN0cw", "-c", properties],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "server.log"), "w") as log:
            broker = subprocess.Popen(java + ["kafka.Kafka", properties], stdout=log, stderr=log)
            try:
                wait_for(f"127.0.0.1:{port}", broker)
                yield f"127.0.0.1:{port}"
            finally:
                broker.terminate()
                broker.wait()


def wait_for(address, broker, patience=180):
    client, start = admin.AdminClient({"bootstrap.servers": address, "log_level": 0}), time.time()
    while True:
        with contextlib.suppress(Exception):
            if client.list_topics(timeout=2).brokers:
                return
        if broker.poll() is not None or time.time() - start > patience:
            raise RuntimeError("the Kafka broker did not start: is there a Java 17?")
        time.sleep(.2)
