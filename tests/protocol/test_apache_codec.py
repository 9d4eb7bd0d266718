"""The codec of Apache Kafka decodes our messages and encodes them to the same bytes."""

from __future__ import annotations

import subprocess
from random import Random
from typing import TYPE_CHECKING

from compat.apache.tools import SHORT_LIVED_JVM, java_command
from pykbroker_protocol.compiler import encode
from tests.protocol.random_messages import DECLARED, random_message, versions_of

if TYPE_CHECKING:
    from pathlib import Path

    from compat.apache import ApacheTools

ROUNDS = 4
ECHO = """
import java.io.*;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.*;

class Echo {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated."};

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ", 3);
            System.out.println(echo(words[0], Short.parseShort(words[1]), words[2]));
        }
    }

    static String echo(String name, short version, String hex) {
        try {
            ByteBuffer in = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
            Message message = find(name);
            message.read(new ByteBufferAccessor(in), version);
            if (in.hasRemaining()) return in.remaining() + " bytes left";
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(out), cache, version);
            return HexFormat.of().formatHex(out.array());
        } catch (Exception e) {
            return e.toString().replace('\\n', ' ');
        }
    }

    static Message find(String name) throws Exception {
        for (String each : PACKAGES) {
            try {
                return (Message) Class.forName(each + name).getConstructor().newInstance();
            } catch (ClassNotFoundException elsewhere) { }
        }
        throw new ClassNotFoundException(name);
    }
}
"""


def apache_class(name: str) -> str:
    return f"{name}Data" if name.endswith(("Request", "Response", "Header")) else name


def test_apache_kafka_decodes_each_message_and_encodes_it_to_the_same_bytes(
    apache_tools: ApacheTools, tmp_path: Path
) -> None:
    asked = [
        (it.__name__, version, encode(random_message(it, version, Random(seed)), version).hex())
        for it in DECLARED
        for version in versions_of(it)
        for seed in range(ROUNDS)
    ]
    source = tmp_path / "Echo.java"
    source.write_text(ECHO)
    ran = subprocess.run(
        java_command(apache_tools.libraries, SHORT_LIVED_JVM, str(source)),
        input="".join(f"{apache_class(name)} {version} {data}\n" for name, version, data in asked),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answers = ran.stdout.splitlines()
    assert len(answers) > 2_000
    wrong = [
        (name, version, data[:200], answer[:200])
        for (name, version, data), answer in zip(asked, answers, strict=True)
        if data != answer
    ]
    assert not wrong
