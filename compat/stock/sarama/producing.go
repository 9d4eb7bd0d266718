// Producers of sarama.

package main

import (
	"github.com/IBM/sarama"
)

type producer struct {
	sarama.AsyncProducer
	acks string
}

func (it *producer) shut() error { return it.Close() }

func (it *producer) letGo() { it.Close() }

func (program *Program) openProducer(command *Command) (any, error) {
	opened, err := sarama.NewAsyncProducer(addresses(command), producerConfig(command))
	if err != nil {
		return nil, err
	}
	program.opened[command.On] = &producer{opened, command.Acks}
	return nil, nil
}

func producerConfig(command *Command) *sarama.Config {
	config := common(command)
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}[command.Acks]
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none":   sarama.CompressionNone,
		"gzip":   sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy,
		"lz4":    sarama.CompressionLZ4,
		"zstd":   sarama.CompressionZSTD,
	}[command.Compression]
	config.Producer.Partitioner = partitioner(command.Partitioner)
	if command.Idempotent || command.TransactionalID != "" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	config.Producer.Transaction.ID = command.TransactionalID
	if command.TransactionTimeoutMs > 0 {
		config.Producer.Transaction.Timeout = ms(command.TransactionTimeoutMs)
	}
	if command.LingerMs != nil {
		config.Producer.Flush.Frequency = ms(*command.LingerMs)
	}
	if command.BatchBytesMax > 0 {
		config.Producer.Flush.Bytes = command.BatchBytesMax
	}
	if command.RequestBytesMax > 0 {
		config.Producer.MaxMessageBytes = command.RequestBytesMax
	}
	if command.DeliveryTimeoutMs > 0 { // it counts tries, not time
		config.Producer.Retry.Backoff = backoff
		config.Producer.Retry.Max = int(ms(command.DeliveryTimeoutMs) / backoff)
	}
	return config
}

func partitioner(name string) sarama.PartitionerConstructor {
	construct := sarama.NewHashPartitioner
	if name == "last" {
		construct = func(string) sarama.Partitioner { return last{} }
	}
	return func(topic string) sarama.Partitioner { return asGivenOr{construct(topic)} }
}

type last struct{}

func (last) Partition(_ *sarama.ProducerMessage, count int32) (int32, error) { return count - 1, nil }

func (last) RequiresConsistency() bool { return true }

// asGivenOr leaves a record in the partition that it names, and asks another about the rest.
type asGivenOr struct{ sarama.Partitioner }

func (it asGivenOr) Partition(message *sarama.ProducerMessage, count int32) (int32, error) {
	if given := message.Metadata.(sent).row.Partition; given != nil {
		return *given, nil
	}
	return it.Partitioner.Partition(message, count)
}

func (it asGivenOr) MessageRequiresConsistency(message *sarama.ProducerMessage) bool {
	if message.Metadata.(sent).row.Partition != nil {
		return true
	}
	if other, is := it.Partitioner.(sarama.DynamicConsistencyPartitioner); is {
		return other.MessageRequiresConsistency(message)
	}
	return it.RequiresConsistency()
}

// sent goes with a message and comes back with what came of it.
type sent struct {
	number int
	row    *Record
}

func (program *Program) produce(command *Command) (any, error) {
	opened := program.opened[command.On].(*producer)
	go func() {
		for number := range command.Records {
			opened.Input() <- messageOf(sent{number, &command.Records[number]})
		}
	}()
	written := make([]told, len(command.Records))
	for range written {
		select {
		case message := <-opened.Successes():
			written[message.Metadata.(sent).number] = opened.placeOf(message)
		case failed := <-opened.Errors():
			written[failed.Msg.Metadata.(sent).number] = told{"error": program.errorTold(failed.Err)}
		}
	}
	return told{"written": written}, nil
}

func (it *producer) placeOf(message *sarama.ProducerMessage) told {
	place := told{"topic": message.Topic, "partition": message.Partition, "offset": message.Offset}
	if it.acks == "0" {
		place["offset"] = nil
	}
	return place
}

func messageOf(it sent) *sarama.ProducerMessage {
	row := it.row
	message := &sarama.ProducerMessage{Topic: row.Topic, Timestamp: row.time(), Metadata: it}
	if row.Key != nil {
		message.Key = sarama.ByteEncoder(row.Key)
	}
	if row.Value != nil {
		message.Value = sarama.ByteEncoder(row.Value)
	}
	for _, it := range row.Headers {
		header := sarama.RecordHeader{Key: []byte(it.Name), Value: it.Value}
		message.Headers = append(message.Headers, header)
	}
	return message
}

func (program *Program) begin(command *Command) (any, error) {
	return nil, program.opened[command.On].(*producer).BeginTxn()
}

func (program *Program) commitTransaction(command *Command) (any, error) {
	return nil, program.opened[command.On].(*producer).CommitTxn()
}

func (program *Program) abortTransaction(command *Command) (any, error) {
	return nil, program.opened[command.On].(*producer).AbortTxn()
}
