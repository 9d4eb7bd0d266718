"""Apache Kafka for comparisons and benchmarks: installation, a node, its tools."""

from compat.apache.apache_kafka import ApacheKafka, ApacheKafkaFailedError
from compat.apache.installation import ApacheKafkaUnavailableError, install
from compat.apache.message_definitions import message_definitions
from compat.apache.tool_server import WarmTools
from compat.apache.tools import ApacheTools, ToolFailedError

__all__ = [
    "ApacheKafka",
    "ApacheKafkaFailedError",
    "ApacheKafkaUnavailableError",
    "ApacheTools",
    "ToolFailedError",
    "WarmTools",
    "install",
    "message_definitions",
]
