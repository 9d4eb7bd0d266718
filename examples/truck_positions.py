"""Sends positions of 100 trucks to the topic 'trucks' and reads them with two consumer groups."""

import json

from kafka import KafkaConsumer, KafkaProducer

BOOTSTRAP = "127.0.0.1:9092"

producer = KafkaProducer(
    bootstrap_servers=BOOTSTRAP,
    acks="all",
    key_serializer=str.encode,
    value_serializer=lambda position: json.dumps(position).encode(),
)
for report in range(3):
    for truck in range(100):
        position = {"truck": truck, "lat": 48.1 + truck / 100, "lon": 11.5 + report / 10}
        producer.send("trucks", key=f"truck-{truck}", value=position)
producer.flush()
producer.close()


def consumer(group):
    return KafkaConsumer(
        "trucks", group_id=group, bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest"
    )


dashboard, latest = consumer("location-dashboard"), {}
for record in dashboard:
    position = json.loads(record.value)
    latest[position["truck"]] = position
    if sum(position["lon"] > 11.6 for position in latest.values()) == 100:
        break
dashboard.close()  # commits the offsets
print("dashboard: received the latest position of", len(latest), "trucks")

notifications, north = consumer("notification-service"), set()
for record in notifications:
    position = json.loads(record.value)
    if position["lat"] > 49:
        north.add(position["truck"])
    if len(north) == 9:
        break
notifications.close()
print("notifications: trucks in the north:", sorted(north))
