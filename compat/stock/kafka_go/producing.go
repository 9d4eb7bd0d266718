// Producers of kafka-go.

package main

import (
	"context"
	"errors"
	"log"
	"sync"

	"github.com/segmentio/kafka-go"
)

type producer struct {
	*kafka.Writer
	options *Command

	lock sync.Mutex
	told map[int]kafka.Message // what came of each record, as far as it went well
}

func (it *producer) shut() error {
	err := it.Close()
	it.Transport.(*kafka.Transport).CloseIdleConnections()
	return err
}

func (it *producer) letGo() {
	if err := it.shut(); err != nil {
		log.Print(err)
	}
}

func (program *Program) openProducer(command *Command) (any, error) {
	it := &producer{options: command, told: map[int]kafka.Message{}}
	it.Writer = &kafka.Writer{
		Addr:         kafka.TCP(addresses(command)...),
		Transport:    transport(command),
		Balancer:     asGivenOr{balancer(command.Partitioner)},
		BatchBytes:   int64(max(command.BatchBytesMax, command.RequestBytesMax)),
		ReadTimeout:  ms(command.RequestTimeoutMs),
		WriteTimeout: ms(command.RequestTimeoutMs),
		Completion:   it.note,
		RequiredAcks: map[string]kafka.RequiredAcks{
			"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll,
		}[command.Acks],
		Compression: map[string]kafka.Compression{
			"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}[command.Compression],
	}
	if command.LingerMs != nil {
		it.BatchTimeout = ms(max(*command.LingerMs, 1)) // zero is the library's default, a second
	}
	program.opened[command.On] = it
	return nil, nil
}

func (it *producer) note(messages []kafka.Message, err error) {
	if err != nil {
		return
	}
	it.lock.Lock()
	defer it.lock.Unlock()
	for _, message := range messages {
		it.told[message.WriterData.(sent).number] = message
	}
}

func balancer(name string) kafka.Balancer {
	switch name {
	case "java":
		return kafka.Murmur2Balancer{}
	case "last":
		return kafka.BalancerFunc(func(_ kafka.Message, partitions ...int) int {
			return partitions[len(partitions)-1]
		})
	}
	return &kafka.RoundRobin{}
}

// asGivenOr leaves a record in the partition that it names, and asks another about the rest.
type asGivenOr struct{ other kafka.Balancer }

func (it asGivenOr) Balance(message kafka.Message, partitions ...int) int {
	if given := message.WriterData.(sent).row.Partition; given != nil {
		return int(*given)
	}
	return it.other.Balance(message, partitions...)
}

// sent goes with a message and comes back with what came of it.
type sent struct {
	number int
	row    *Record
}

func (program *Program) produce(command *Command) (any, error) {
	it := program.opened[command.On].(*producer)
	var messages []kafka.Message
	for number := range command.Records {
		messages = append(messages, messageOf(sent{number, &command.Records[number]}))
	}
	clear(it.told)
	within, cancel := it.deliveryTime()
	defer cancel()
	err := it.WriteMessages(within, messages...)
	it.lock.Lock()
	defer it.lock.Unlock()
	var written []told
	for number := range messages {
		written = append(written, program.outcome(it, number, err))
	}
	return told{"written": written}, nil
}

func (it *producer) deliveryTime() (context.Context, context.CancelFunc) {
	if it.options.DeliveryTimeoutMs == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, ms(it.options.DeliveryTimeoutMs))
}

// outcome is the record's own error, that of all, or where it went.
func (program *Program) outcome(it *producer, number int, err error) told {
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		err = each[number]
	}
	if err != nil {
		return told{"error": program.errorTold(err)}
	}
	message := it.told[number]
	place := told{"topic": message.Topic, "partition": message.Partition, "offset": message.Offset}
	if it.options.Acks == "0" {
		place["offset"] = nil
	}
	return place
}

func messageOf(it sent) kafka.Message {
	message := kafka.Message{
		Topic: it.row.Topic, Key: it.row.Key, Value: it.row.Value, Time: it.row.time(), WriterData: it,
	}
	for _, header := range it.row.Headers {
		message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: header.Value})
	}
	return message
}
