// Producers of franz-go.

package main

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const undecided = -1

type producer struct {
	*kgo.Client
	options *Command
}

func (it *producer) shut() error {
	err := it.Flush(ctx)
	it.Close()
	return err
}

func (it *producer) letGo() { it.Close() }

func (program *Program) openProducer(command *Command) (any, error) {
	client, err := kgo.NewClient(append(common(command), producerOptions(command)...)...)
	if err != nil {
		return nil, err
	}
	program.opened[command.On] = &producer{client, command}
	if command.TransactionalID != "" {
		_, _, err = client.ProducerID(ctx)
	}
	return nil, err
}

func producerOptions(command *Command) []kgo.Opt {
	options := []kgo.Opt{
		kgo.RequiredAcks(map[string]kgo.Acks{
			"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks(),
		}[command.Acks]),
		kgo.ProducerBatchCompression(map[string]kgo.CompressionCodec{
			"none":   kgo.NoCompression(),
			"gzip":   kgo.GzipCompression(),
			"snappy": kgo.SnappyCompression(),
			"lz4":    kgo.Lz4Compression(),
			"zstd":   kgo.ZstdCompression(),
		}[command.Compression]),
		kgo.RecordPartitioner(asGivenOr{partitioner(command.Partitioner)}),
	}
	if !command.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if command.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(command.TransactionalID))
	}
	if command.TransactionTimeoutMs > 0 {
		options = append(options, kgo.TransactionTimeout(ms(command.TransactionTimeoutMs)))
	}
	if command.LingerMs != nil {
		options = append(options, kgo.ProducerLinger(ms(*command.LingerMs)))
	}
	if command.BatchBytesMax > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(command.BatchBytesMax)))
	}
	if command.RequestBytesMax > 0 { // a record is refused by itself if no batch can hold it
		options = append(options, kgo.ProducerBatchMaxBytes(int32(command.RequestBytesMax)))
	}
	if command.RequestTimeoutMs > 0 {
		options = append(options, kgo.ProduceRequestTimeout(ms(command.RequestTimeoutMs)))
	}
	return options
}

func partitioner(name string) kgo.Partitioner {
	switch name {
	case "java":
		return kgo.StickyKeyPartitioner(nil)
	case "last":
		return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(_ *kgo.Record, count int) int { return count - 1 }
		})
	}
	return kgo.UniformBytesPartitioner(64<<10, true, true, nil)
}

// asGivenOr leaves a record in the partition that it names, and asks another about the rest.
type asGivenOr struct{ other kgo.Partitioner }

func (it asGivenOr) ForTopic(topic string) kgo.TopicPartitioner {
	other := asGivenOrForTopic{it.other.ForTopic(topic)}
	if backup, is := other.TopicPartitioner.(kgo.TopicBackupPartitioner); is {
		return asGivenOrByBackup{other, backup}
	}
	return other
}

type asGivenOrForTopic struct{ kgo.TopicPartitioner }

func (it asGivenOrForTopic) RequiresConsistency(record *kgo.Record) bool {
	return record.Partition != undecided || it.TopicPartitioner.RequiresConsistency(record)
}

func (it asGivenOrForTopic) Partition(record *kgo.Record, count int) int {
	if record.Partition != undecided {
		return int(record.Partition)
	}
	return it.TopicPartitioner.Partition(record, count)
}

func (it asGivenOrForTopic) OnNewBatch() {
	if other, is := it.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); is {
		other.OnNewBatch()
	}
}

type asGivenOrByBackup struct {
	asGivenOrForTopic
	other kgo.TopicBackupPartitioner
}

func (it asGivenOrByBackup) PartitionByBackup(
	record *kgo.Record, count int, backup kgo.TopicBackupIter,
) int {
	if record.Partition != undecided {
		return int(record.Partition)
	}
	return it.other.PartitionByBackup(record, count, backup)
}

func (program *Program) produce(command *Command) (any, error) {
	client := program.opened[command.On].(*producer)
	within, cancel := client.deliveryTime()
	defer cancel()
	written := make([]told, len(command.Records))
	var waiting sync.WaitGroup
	waiting.Add(len(written))
	for number, row := range command.Records {
		client.Produce(within, recordOf(row), func(record *kgo.Record, err error) {
			defer waiting.Done()
			if err != nil {
				written[number] = told{"error": program.errorTold(err)}
				return
			}
			written[number] = told{
				"topic": record.Topic, "partition": record.Partition, "offset": record.Offset,
			}
		})
	}
	waiting.Wait()
	return told{"written": written}, nil
}

// deliveryTime ends sending; the library's own RecordDeliveryTimeout counts from the time in the
// record, which may be long past.
func (it *producer) deliveryTime() (context.Context, context.CancelFunc) {
	if it.options.DeliveryTimeoutMs == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, ms(it.options.DeliveryTimeoutMs))
}

func recordOf(row Record) *kgo.Record {
	record := &kgo.Record{
		Topic: row.Topic, Partition: undecided, Key: row.Key, Value: row.Value, Timestamp: row.time(),
	}
	if row.Partition != nil {
		record.Partition = *row.Partition
	}
	for _, it := range row.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: it.Name, Value: it.Value})
	}
	return record
}

func (program *Program) begin(command *Command) (any, error) {
	return nil, program.opened[command.On].(*producer).BeginTransaction()
}

func (program *Program) commitTransaction(command *Command) (any, error) {
	client := program.opened[command.On].(*producer)
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	return nil, client.EndTransaction(ctx, kgo.TryCommit)
}

func (program *Program) abortTransaction(command *Command) (any, error) {
	client := program.opened[command.On].(*producer)
	if err := client.AbortBufferedRecords(ctx); err != nil {
		return nil, err
	}
	return nil, client.EndTransaction(ctx, kgo.TryAbort)
}

// sendOffsets asks in the library's own requests: its session for this wants to be the consumer
// and the producer in one.
func (program *Program) sendOffsets(command *Command) (any, error) {
	client := program.opened[command.On].(*producer)
	reader := program.opened[command.Consumer].(*consumer)
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return nil, err
	}
	adding := kmsg.NewPtrAddOffsetsToTxnRequest()
	adding.TransactionalID, adding.Group = client.options.TransactionalID, reader.options.Group
	adding.ProducerID, adding.ProducerEpoch = id, epoch
	added, err := adding.RequestWith(ctx, client.Client)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return nil, err
	}
	return nil, commitInTransaction(client, reader, id, epoch, command.Offsets)
}

func commitInTransaction(
	client *producer, reader *consumer, id int64, epoch int16, offsets []Position,
) error {
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.TransactionalID, request.Group = client.options.TransactionalID, reader.options.Group
	request.ProducerID, request.ProducerEpoch = id, epoch
	request.MemberID, request.Generation = reader.GroupMetadata()
	if reader.options.InstanceID != "" {
		request.InstanceID = &reader.options.InstanceID
	}
	for _, it := range offsets {
		partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = it.Partition, it.Offset.Number
		partition.Metadata = &it.Metadata
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = it.Topic, append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, client.Client)
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
