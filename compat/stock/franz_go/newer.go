//go:build !older

// What versions of franz-go have that came after those called older.

package main

import (
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// serverSide lets the broker share partitions out.
func serverSide() []kgo.Opt { return []kgo.Opt{kgo.ServerSideBalancer()} }

func maxTimestampOffsets(client *kadm.Client, topic string) (kadm.ListedOffsets, error) {
	return client.ListMaxTimestampOffsets(ctx, topic)
}

func (program *Program) describeConsumerGroup(command *Command) (any, error) {
	found, err := program.admin(command).DescribeConsumerGroups(ctx, command.Group)
	if err := first(err, found.Error()); err != nil {
		return nil, err
	}
	group := found[command.Group]
	members := []told{}
	for _, it := range group.Members {
		var places []Place
		it.Assignment.Each(func(topic string, partition int32) {
			places = append(places, Place{topic, partition})
		})
		members = append(members, told{
			"client_id": it.ClientID, "instance_id": it.InstanceID, "assignment": placesTold(places),
		})
	}
	return told{"state": group.State, "members": members}, nil
}
