// The admin client of franz-go.

package main

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type admin struct{ *kadm.Client }

func (it *admin) shut() error {
	it.Close()
	return nil
}

func (it *admin) letGo() { it.Close() }

func (program *Program) admin(command *Command) *admin {
	return program.opened[command.On].(*admin)
}

func (program *Program) openAdmin(command *Command) (any, error) {
	client, err := kgo.NewClient(common(command)...)
	if err != nil {
		return nil, err
	}
	it := &admin{kadm.NewClient(client)}
	if command.RequestTimeoutMs > 0 {
		it.SetTimeoutMillis(int32(command.RequestTimeoutMs))
	}
	program.opened[command.On] = it
	return nil, nil
}

// --- topics

func (program *Program) createTopics(command *Command) (any, error) {
	for _, it := range command.Topics {
		configs := map[string]*string{}
		for key, value := range it.Configs {
			configs[key] = &value
		}
		create := program.admin(command).CreateTopics
		if command.ValidateOnly {
			create = program.admin(command).ValidateCreateTopics
		}
		found, err := create(ctx, it.Partitions, it.Replicas, configs, it.Name)
		if err := first(err, found.Error()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (program *Program) deleteTopics(command *Command) (any, error) {
	found, err := program.admin(command).DeleteTopics(ctx, names(command.Topics)...)
	return nil, first(err, found.Error())
}

func (program *Program) listTopics(command *Command) (any, error) {
	found, err := program.admin(command).ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	return told{"topics": found.Names()}, nil
}

func (program *Program) describeTopics(command *Command) (any, error) {
	found, err := program.admin(command).ListTopics(ctx, names(command.Topics)...)
	if err := first(err, found.Error()); err != nil {
		return nil, err
	}
	var topics []told
	for _, topic := range found.Sorted() {
		var partitions []told
		for _, it := range topic.Partitions.Sorted() {
			partitions = append(partitions, told{
				"partition": it.Partition, "leader": it.Leader, "replicas": it.Replicas, "in_sync": it.ISR,
			})
		}
		topics = append(topics, told{"name": topic.Topic, "partitions": partitions})
	}
	return told{"topics": topics}, nil
}

func (program *Program) createPartitions(command *Command) (any, error) {
	found, err := program.admin(command).UpdatePartitions(ctx, command.Total, command.Topic)
	return nil, first(err, found.Error())
}

// --- configurations

func (program *Program) describeConfigs(command *Command) (any, error) {
	var found kadm.ResourceConfigs
	var err error
	switch command.Kind {
	case "topic":
		found, err = program.admin(command).DescribeTopicConfigs(ctx, command.Name)
	case "broker":
		found, err = program.admin(command).DescribeBrokerConfigs(ctx, nodes(command.Name)...)
	default:
		return nil, noSuchKind(command.Kind)
	}
	if err != nil {
		return nil, err
	}
	configs := map[string]told{}
	for _, resource := range found {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, it := range resource.Configs {
			isDefault := it.Source == kmsg.ConfigSourceDefaultConfig
			configs[it.Key] = told{"value": it.Value, "is_default": isDefault}
		}
	}
	return told{"configs": configs}, nil
}

func (program *Program) alterConfigs(command *Command) (any, error) {
	changes := settings(command)
	for _, key := range command.Unset {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
	}
	client := program.admin(command)
	if command.Kind == "topic" {
		return nil, alteration(client.AlterTopicConfigs(ctx, changes, command.Name))
	}
	return nil, alteration(client.AlterBrokerConfigs(ctx, changes, nodes(command.Name)...))
}

func (program *Program) replaceConfigs(command *Command) (any, error) {
	client := program.admin(command)
	if command.Kind == "topic" {
		return nil, alteration(client.AlterTopicConfigsState(ctx, settings(command), command.Name))
	}
	return nil, alteration(
		client.AlterBrokerConfigsState(ctx, settings(command), nodes(command.Name)...),
	)
}

func settings(command *Command) []kadm.AlterConfig {
	var changes []kadm.AlterConfig
	for key, value := range command.Set {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	return changes
}

func alteration(found kadm.AlterConfigsResponses, err error) error {
	for _, it := range found {
		err = first(err, it.Err)
	}
	return err
}

// nodes are a broker's number, or none: the default of all brokers.
func nodes(name string) []int32 {
	number, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return nil
	}
	return []int32{int32(number)}
}

// --- records

func (program *Program) deleteRecords(command *Command) (any, error) {
	var before kadm.Offsets
	before.AddOffset(command.Topic, command.Partition, command.Before, -1)
	found, err := program.admin(command).DeleteRecords(ctx, before)
	if err := first(err, found.Error()); err != nil {
		return nil, err
	}
	it, _ := found.Lookup(command.Topic, command.Partition)
	return told{"low_watermark": it.LowWatermark}, nil
}

func (program *Program) listOffsets(command *Command) (any, error) {
	found, err := offsetsListed(program.admin(command).Client, "", command.Topic, command.At)
	if err != nil {
		return nil, err
	}
	offset, err := offsetIn(found, command.place(), command.At)
	if err != nil {
		return nil, err
	}
	return told{"offset": offsetTold(command.place(), offset, nil)["offset"]}, nil
}

func offsetsListed(
	client *kadm.Client, isolation string, topic string, at At,
) (kadm.ListedOffsets, error) {
	switch {
	case at.Word == "beginning":
		return client.ListStartOffsets(ctx, topic)
	case at.Word == "end" && isolation == "read_committed":
		return client.ListCommittedOffsets(ctx, topic)
	case at.Word == "end":
		return client.ListEndOffsets(ctx, topic)
	case at.Word == "max_timestamp":
		return maxTimestampOffsets(client, topic)
	}
	return client.ListOffsetsAfterMilli(ctx, at.Number, topic)
}

// offsetIn is below zero where there is none; the library puts the end there, without a time.
func offsetIn(found kadm.ListedOffsets, place Place, at At) (int64, error) {
	it, _ := found.Lookup(place.Topic, place.Partition)
	if at.Word == "" && it.Timestamp < 0 {
		return undecided, it.Err
	}
	return it.Offset, it.Err
}

// --- the cluster

func (program *Program) describeCluster(command *Command) (any, error) {
	found, err := program.admin(command).BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	var brokers []told
	for _, it := range found.Brokers {
		brokers = append(brokers, told{"id": it.NodeID, "host": it.Host, "port": it.Port})
	}
	return told{
		"cluster_id": found.Cluster, "controller": found.Controller, "brokers": brokers,
	}, nil
}

// --- groups

func (program *Program) listGroups(command *Command) (any, error) {
	found, err := program.admin(command).ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	return told{"groups": found.Groups()}, nil
}

// describeGroup asks about one of the protocol "consumer" if it is not a classic one.
func (program *Program) describeGroup(command *Command) (any, error) {
	found, err := program.admin(command).DescribeGroups(ctx, command.Group)
	if err := first(err, found.Error()); err != nil || found[command.Group].State == "Dead" {
		if answer, told := program.describeConsumerGroup(command); told == nil {
			return answer, nil
		}
		return nil, err
	}
	group := found[command.Group]
	members := []told{}
	for _, it := range group.Members {
		members = append(members, told{
			"client_id": it.ClientID, "instance_id": it.InstanceID, "assignment": assigned(it),
		})
	}
	return told{"state": group.State, "members": members}, nil
}

func assigned(member kadm.DescribedGroupMember) any {
	assignment, known := member.Assigned.AsConsumer()
	if !known {
		return nil
	}
	var places []Place
	for _, topic := range assignment.Topics {
		for _, partition := range topic.Partitions {
			places = append(places, Place{topic.Topic, partition})
		}
	}
	return placesTold(places)
}

func (program *Program) groupOffsets(command *Command) (any, error) {
	found, err := program.admin(command).FetchOffsets(ctx, command.Group)
	if err := first(err, found.Error()); err != nil {
		return nil, err
	}
	offsets := []told{}
	for _, it := range found.Sorted() {
		place := Place{it.Topic, it.Partition}
		offsets = append(offsets, offsetTold(place, it.At, &it.Metadata))
	}
	return told{"offsets": offsets}, nil
}

func (program *Program) alterGroupOffsets(command *Command) (any, error) {
	changes := adminOffsets(command.Offsets)
	return nil, program.admin(command).CommitAllOffsets(ctx, command.Group, changes)
}

func adminOffsets(positions []Position) kadm.Offsets {
	var offsets kadm.Offsets
	for _, it := range positions {
		offsets.Add(kadm.Offset{
			Topic: it.Topic, Partition: it.Partition,
			At: it.Offset.Number, LeaderEpoch: -1, Metadata: it.Metadata,
		})
	}
	return offsets
}

func (program *Program) deleteGroupOffsets(command *Command) (any, error) {
	var places kadm.TopicsSet
	for _, it := range command.Partitions {
		places.Add(it.Topic, it.Partition)
	}
	found, err := program.admin(command).DeleteOffsets(ctx, command.Group, places)
	return nil, first(err, found.Error())
}

func (program *Program) deleteGroup(command *Command) (any, error) {
	found, err := program.admin(command).DeleteGroups(ctx, command.Group)
	return nil, first(err, found.Error())
}

// --- transactions

func (program *Program) listTransactions(command *Command) (any, error) {
	found, err := program.admin(command).ListTransactions(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	transactions := []told{}
	for _, it := range found.Sorted() {
		transactions = append(transactions, told{"transactional_id": it.TxnID, "state": it.State})
	}
	return told{"transactions": transactions}, nil
}

func (program *Program) describeTransaction(command *Command) (any, error) {
	found, err := program.admin(command).DescribeTransactions(ctx, command.TransactionalID)
	if err != nil {
		return nil, err
	}
	it := found[command.TransactionalID]
	if it.Err != nil {
		return nil, it.Err
	}
	places := []Place{}
	it.Topics.Each(func(topic string, partition int32) {
		places = append(places, Place{topic, partition})
	})
	return told{"state": it.State, "partitions": placesTold(places)}, nil
}
