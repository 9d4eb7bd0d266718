//go:build !older

// What versions of sarama have that came after those called older.

package main

import (
	"errors"

	"github.com/IBM/sarama"
)

type clusterAdmin = sarama.TransactionClusterAdmin

func cooperativeSticky() sarama.BalanceStrategy { return sarama.NewBalanceStrategyCooperativeSticky() }

func (program *Program) sendOffsets(command *Command) (any, error) {
	reader := program.opened[command.Consumer].(*consumer)
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, it := range command.Offsets {
		offsets[it.Topic] = append(offsets[it.Topic], &sarama.PartitionOffsetMetadata{
			Partition: it.Partition, Offset: it.Offset.Number, LeaderEpoch: -1, Metadata: &it.Metadata,
		})
	}
	opened := program.opened[command.On].(*producer)
	return nil, opened.AddOffsetsToTxnWithGroupMetadata(offsets, reader.groupMetadata())
}

func (it *consumer) groupMetadata() *sarama.ConsumerGroupMetadata {
	session := it.currentSession()
	if session == nil {
		return sarama.NewConsumerGroupMetadata(it.options.Group)
	}
	var instance *string
	if it.options.InstanceID != "" {
		instance = &it.options.InstanceID
	}
	return sarama.NewConsumerGroupMetadataFromSession(session, it.options.Group, instance)
}

func (program *Program) listOffsets(command *Command) (any, error) {
	wanted := map[string]map[int32]int64{command.Topic: {command.Partition: timeOf(command.At)}}
	found, err := program.admin(command).ListOffsets(wanted, nil)
	if err != nil {
		return nil, err
	}
	it := found[command.Topic][command.Partition]
	if it.Err != nil && !errors.Is(it.Err, sarama.ErrNoError) {
		return nil, it.Err
	}
	return told{"offset": offsetTold(command.place(), it.Offset, nil)["offset"]}, nil
}

func (program *Program) alterGroupOffsets(command *Command) (any, error) {
	changes := map[string]map[int32]sarama.OffsetAndMetadata{}
	for _, it := range command.Offsets {
		if changes[it.Topic] == nil {
			changes[it.Topic] = map[int32]sarama.OffsetAndMetadata{}
		}
		changes[it.Topic][it.Partition] = sarama.OffsetAndMetadata{
			Offset: it.Offset.Number, Metadata: it.Metadata, LeaderEpoch: -1,
		}
	}
	found, err := program.admin(command).AlterConsumerGroupOffsets(command.Group, changes, nil)
	if err != nil {
		return nil, err
	}
	for _, partitions := range found.Errors {
		for _, code := range partitions {
			if code != sarama.ErrNoError {
				return nil, code
			}
		}
	}
	return nil, nil
}

func (program *Program) listTransactions(command *Command) (any, error) {
	found, err := program.admin(command).ListTransactions(nil, nil, -1)
	if err != nil {
		return nil, err
	}
	transactions := []told{}
	for _, it := range found {
		transactions = append(transactions, told{
			"transactional_id": it.TransactionalID, "state": it.TransactionState,
		})
	}
	return told{"transactions": transactions}, nil
}

func (program *Program) describeTransaction(command *Command) (any, error) {
	id := command.TransactionalID
	found, err := program.admin(command).DescribeTransactions([]string{id})
	if err != nil {
		return nil, err
	}
	it := found[id]
	if it.ErrorCode != sarama.ErrNoError {
		return nil, it.ErrorCode
	}
	var places []Place
	for _, topic := range it.Topics {
		for _, partition := range topic.Partitions {
			places = append(places, Place{topic.Topic, partition})
		}
	}
	return told{"state": it.TransactionState, "partitions": placesTold(places)}, nil
}
