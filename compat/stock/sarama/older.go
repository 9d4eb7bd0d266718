//go:build older

// What older versions of sarama do otherwise, or not at all; the manifest lets nobody ask for the latter.

package main

import (
	"errors"

	"github.com/IBM/sarama"
)

var errTooOld = errors.New("came with a later version")

type clusterAdmin = sarama.ClusterAdmin

func cooperativeSticky() sarama.BalanceStrategy { return nil }

// sendOffsets names the group alone, and neither its generation nor the member.
func (program *Program) sendOffsets(command *Command) (any, error) {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, it := range command.Offsets {
		offsets[it.Topic] = append(offsets[it.Topic], &sarama.PartitionOffsetMetadata{
			Partition: it.Partition, Offset: it.Offset.Number, Metadata: &it.Metadata,
		})
	}
	group := program.opened[command.Consumer].(*consumer).options.Group
	return nil, program.opened[command.On].(*producer).AddOffsetsToTxn(offsets, group)
}

func (program *Program) listOffsets(*Command) (any, error) { return nil, errTooOld }

func (program *Program) alterGroupOffsets(*Command) (any, error) { return nil, errTooOld }

func (program *Program) listTransactions(*Command) (any, error) { return nil, errTooOld }

func (program *Program) describeTransaction(*Command) (any, error) { return nil, errTooOld }
