"""The pytest plugin in separate pytest processes."""

import textwrap
from typing import Protocol

import pytest

from pykbroker import Broker

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow  # each starts a pytest

PLUGIN = ("-p", "pykbroker.testing.plugin", "-p", "no:cacheprovider")


class Run(Protocol):
    """Runs a test module in a new process."""

    def __call__(self, source: str, *options: str) -> pytest.RunResult: ...


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    def run_module(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(textwrap.dedent(source))
        return pytester.runpytest_subprocess(*PLUGIN, *options)

    return run_module


CLEAN_EACH_TIME = """
    import pytest
    from pykbroker import Broker, Topic

    pytestmark = pytest.mark.kafka(topics={"trucks": 3})

    @pytest.mark.parametrize("time", range(5))
    def test_the_broker_is_clean(kafka: Broker, kafka_broker: Broker, time: int):
        assert kafka is kafka_broker
        assert kafka.records("trucks") == []
        kafka.produce("trucks", ["a", "b", "c", "d"])
        assert [it.partition for it in kafka.records("trucks")] == [0, 0, 1, 2]

    @pytest.mark.kafka(["more"])
    def test_markers_are_combined(kafka: Broker):
        kafka.produce("more", [b"a"])
        kafka.produce("trucks", [b"a"])

    @pytest.mark.kafka(topics={"only": Topic(2, config={"retention.ms": 1})})
    def test_topics_have_properties(kafka: Broker):
        kafka.produce("only", [b"a"], partition=1)

    @pytest.mark.kafka(config={"message.max.bytes": 1000})
    def test_config_makes_a_separate_broker(kafka: Broker, kafka_broker: Broker):
        assert kafka is not kafka_broker
        with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
            kafka.produce("trucks", [bytes(2000)])
"""


AS_AN_OLDER_ONE = """
    import pytest
    from kafka import KafkaAdminClient
    from pykbroker import Broker

    pytestmark = pytest.mark.kafka(topics=["trucks"])

    @pytest.mark.kafka(as_version="2.8")
    def test_as_version_makes_an_older_broker(kafka: Broker, kafka_broker: Broker):
        assert kafka is not kafka_broker
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        fetch = 1
        assert admin.api_versions()[fetch] == (4, 12)
        admin.close()

    def test_the_session_broker_is_current(kafka: Broker, kafka_broker: Broker):
        assert kafka is kafka_broker
"""


def test_a_marker_can_set_as_version(run: Run) -> None:
    run(AS_AN_OLDER_ONE).assert_outcomes(passed=2)


def test_every_test_has_a_clean_broker(run: Run) -> None:
    run(CLEAN_EACH_TIME).assert_outcomes(passed=8)


def test_each_xdist_worker_has_its_own_broker(run: Run) -> None:
    run(CLEAN_EACH_TIME, "-n", "2").assert_outcomes(passed=8)


def test_kafka_config_sets_the_properties_of_the_session_broker(
    run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_config():
            return {"message.max.bytes": 1000}
        """
    )
    run(
        """
        import pytest

        @pytest.mark.kafka(["t"])
        def test_it_is_small(kafka):
            with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
                kafka.produce("t", [bytes(2000)])
        """
    ).assert_outcomes(passed=1)


def test_tests_can_be_asynchronous(run: Run) -> None:
    run(
        """
        import pytest
        from aiokafka import AIOKafkaProducer

        @pytest.mark.asyncio
        @pytest.mark.kafka(["t"])
        async def test_it(kafka):
            async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
                await producer.send_and_wait("t", b"a")
            assert [it.text for it in kafka.wait_for("t", count=1)] == ["a"]
        """
    ).assert_outcomes(passed=1)


def test_the_report_of_a_failed_test_has_the_timeline(run: Run) -> None:
    result = run(
        """
        import pytest
        from kafka import KafkaConsumer

        @pytest.mark.kafka(topics={"trucks": 2})
        def test_that_fails(kafka):
            kafka.produce("trucks", ["a", "b", "c"])
            consumer = KafkaConsumer(
                "trucks", bootstrap_servers=kafka.bootstrap, group_id="readers",
                client_id="reader", auto_offset_reset="earliest",
            )
            assert consumer.poll(5000)
            consumer.close()
            assert False
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines_random(
        [
            r"-+ broker timeline -+",
            r" +\d+\.\d+ s  client 'reader' at 127.0.0.1:\d+ connected with kafka-python .*",
            r" +\d+\.\d+ s  JoinGroup v\d+ of client 'reader' at .*: reader-.* MEMBER_ID_REQUIRED",
            r" +\d+\.\d+ s  group readers rebalances after generation 0: reader-.* joins",
            r" +\d+\.\d+ s  group readers rebalances after generation \d: reader-.* leaves .*",
            r"topic trucks \(partitions: 2\): 0: 0\.\.2, 1: 0\.\.1",
            r"group readers: trucks-0 at \d of 2, trucks-1 at \d of 1",
        ]
    )


def test_an_unknown_marker_argument_is_an_error(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.kafka(topic="t")
        def test_it(kafka): ...
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unexpected keyword argument 'topic'*"])


def test_a_failed_comparison_shows_differing_records(run: Run) -> None:
    result = run(
        """
        import pytest
        from pykbroker.testing.matchers import a_record, in_any_order

        @pytest.mark.kafka(["t"])
        def test_in_order(kafka):
            kafka.produce("t", ["a", "b"])
            assert kafka.records("t") == [a_record("a"), a_record("c")]

        @pytest.mark.kafka(["t"])
        def test_in_any_order(kafka):
            kafka.produce("t", ["a", "b"])
            assert kafka.records("t") == in_any_order(["b", "c"])
        """
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E *equal       t-0@0: 'a'", "E *value is 'b', not 'c'"])
    result.stdout.fnmatch_lines(["E *- missing     a_record('c')", "E *+ unexpected  t-0@0: 'a'"])


BROKERS_THAT_CANNOT_TELL = """
    import pytest

    pytestmark = pytest.mark.kafka(["t"])

    @pytest.mark.kafka(config={"message.max.bytes": 1000})
    def test_stops_its_broker(kafka):
        kafka.stop()
        assert False

    @pytest.mark.kafka(config={"message.max.bytes": 1000})
    def test_takes_its_broker_down(kafka):
        with kafka.faults.disk_full():
            kafka.crash()

    def test_fails_by_itself(kafka):
        assert False

    @pytest.mark.kafka(config={"message.max.bytes": 1000})
    def test_another(kafka):
        assert kafka.records("t") == []
"""


def test_a_failing_report_does_not_end_the_run(run: Run, pytester: pytest.Pytester) -> None:
    no_directory = pytester.makefile(".txt", "")
    result = run(BROKERS_THAT_CANNOT_TELL, f"--kafka-keep-data={no_directory}")
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(
        ["(offsets of topics and groups not available: the broker is not running*"]
    )
    result.stdout.fnmatch_lines(["broker data not saved: *File exists*"])


def test_the_report_of_a_failed_fixture_has_the_timeline(run: Run) -> None:
    result = run(
        """
        import pytest

        pytestmark = pytest.mark.kafka(topics=["t"])

        @pytest.fixture
        def begins_badly(kafka):
            kafka.produce("t", ["before"])
            assert False

        @pytest.fixture
        def ends_badly(kafka):
            yield
            kafka.produce("t", ["after"])
            assert False

        def test_it_begins_badly(begins_badly): ...

        @pytest.mark.kafka(config={"message.max.bytes": 1000})
        def test_it_ends_badly(ends_badly): ...

        def test_the_timeline_is_reported_once(ends_badly):
            assert False
        """
    )
    result.assert_outcomes(errors=3, failed=1, passed=1)
    assert str(result.stdout).count("broker timeline") == 3


def test_an_unused_fault_fails_tests_with_any_broker_fixture(run: Run) -> None:
    result = run(
        """
        import pytest

        pytestmark = pytest.mark.kafka(["t"])

        def ask(broker):
            broker.faults.refuse("PRODUCE", "NOT_LEADER_OR_FOLLOWER")

        @pytest.mark.kafka(config={"message.max.bytes": 1000})
        def test_separate_broker(kafka):
            ask(kafka)

        def test_before_a_reset(kafka):
            ask(kafka)
            kafka.reset()

        def test_with_the_broker_of_the_session(kafka_broker):
            ask(kafka_broker)

        def test_the_next_test_of_the_session_broker_is_unaffected(kafka_broker): ...

        @pytest.mark.kafka(config={"message.max.bytes": 1000})
        def test_a_failed_test_reports_only_its_failure(kafka):
            ask(kafka)
            assert False, "by itself"

        def test_a_failed_test_of_the_session_broker_reports_only_its_failure(kafka_broker):
            ask(kafka_broker)
            assert False, "by itself"
        """
    )
    result.assert_outcomes(failed=5, passed=1)
    assert str(result.stdout).count("broker timeline") == 5
    expected = "E *fault was never applied: respond with NOT_LEADER_OR_FOLLOWER (PRODUCE)"
    result.stdout.fnmatch_lines([expected] * 3)


def test_keep_data_saves_failed_tests(run: Run, pytester: pytest.Pytester) -> None:
    kept = pytester.path / "kept"
    result = run(
        """
        import pytest

        @pytest.mark.kafka(["t"])
        @pytest.mark.parametrize("outcome", [True, False])
        def test_it(kafka, outcome):
            kafka.produce("t", [str(outcome)])
            assert outcome
        """,
        f"--kafka-keep-data={kept}",
    )
    result.assert_outcomes(passed=1, failed=1)
    (directory,) = kept.iterdir()
    result.stdout.fnmatch_lines([f"broker data saved: pykbroker serve --data {directory}"])
    assert directory.name.startswith("test_keep_data_saves_failed_tests")
    with Broker(data=directory) as kafka:
        assert [it.text for it in kafka.records("t")] == ["False"]


def test_an_unused_fault_fails_its_test(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.kafka(["t"])
        def test_it(kafka):
            kafka.faults.refuse("PRODUCE", "NOT_LEADER_OR_FOLLOWER")

        def test_the_next_test_is_unaffected(kafka): ...
        """
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["E *fault was never applied: respond with NOT_LEADER_OR_FOLLOWER (PRODUCE)"]
    )


def test_a_fault_ends_with_its_test(run: Run) -> None:
    run(
        """
        import pytest

        @pytest.fixture
        def program(kafka):
            yield
            assert kafka.produce("t", ["its last words"]) == 1

        @pytest.mark.kafka(["t"])
        def test_it(kafka, program):
            kafka.faults.disk_full()
            with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
                kafka.produce("t", ["a"])
        """
    ).assert_outcomes(passed=1)


def test_a_stopped_session_broker_is_started_for_the_next_test(run: Run) -> None:
    run(
        """
        import pytest
        from pykbroker import CannotStart

        pytestmark = pytest.mark.kafka(["t"])

        def test_stops_the_broker(kafka):
            kafka.produce("t", ["a"])
            kafka.stop()

        def test_leaves_the_broker_down(kafka):
            assert kafka.records("t") == []
            kafka.faults.disk_full()
            with pytest.raises(CannotStart):
                kafka.restart()

        def test_uses_the_broker(kafka, kafka_broker):
            assert kafka is kafka_broker
            kafka.produce("t", ["a"])
        """
    ).assert_outcomes(passed=3)
