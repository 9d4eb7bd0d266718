// The admin client of kafka-go.

package main

import (
	"github.com/segmentio/kafka-go"
)

type admin struct{ *kafka.Client }

func (it *admin) shut() error {
	closeIdle(it.Client)
	return nil
}

func (it *admin) letGo() { closeIdle(it.Client) }

func (program *Program) admin(command *Command) *admin {
	return program.opened[command.On].(*admin)
}

func (program *Program) openAdmin(command *Command) (any, error) {
	program.opened[command.On] = &admin{client(command)}
	return nil, nil
}

// --- topics

func (program *Program) createTopics(command *Command) (any, error) {
	var topics []kafka.TopicConfig
	for _, it := range command.Topics {
		topic := kafka.TopicConfig{
			Topic: it.Name, NumPartitions: int(it.Partitions), ReplicationFactor: int(it.Replicas),
		}
		for key, value := range it.Configs {
			entry := kafka.ConfigEntry{ConfigName: key, ConfigValue: value}
			topic.ConfigEntries = append(topic.ConfigEntries, entry)
		}
		topics = append(topics, topic)
	}
	found, err := program.admin(command).CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: topics, ValidateOnly: command.ValidateOnly,
	})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(nil, found.Errors)
}

func (program *Program) deleteTopics(command *Command) (any, error) {
	found, err := program.admin(command).DeleteTopics(ctx, &kafka.DeleteTopicsRequest{
		Topics: names(command.Topics),
	})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(nil, found.Errors)
}

func (program *Program) listTopics(command *Command) (any, error) {
	found, err := program.admin(command).Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	topics := []string{}
	for _, it := range found.Topics {
		topics = append(topics, it.Name)
	}
	return told{"topics": topics}, nil
}

func (program *Program) describeTopics(command *Command) (any, error) {
	found, err := program.admin(command).Metadata(ctx, &kafka.MetadataRequest{
		Topics: names(command.Topics),
	})
	if err != nil {
		return nil, err
	}
	var topics []told
	for _, topic := range found.Topics {
		if topic.Error != nil {
			return nil, topic.Error
		}
		var partitions []told
		for _, it := range topic.Partitions {
			partitions = append(partitions, told{
				"partition": it.ID, "leader": it.Leader.ID,
				"replicas": numbers(it.Replicas), "in_sync": numbers(it.Isr),
			})
		}
		topics = append(topics, told{"name": topic.Name, "partitions": partitions})
	}
	return told{"topics": topics}, nil
}

func numbers(brokers []kafka.Broker) []int {
	var found []int
	for _, it := range brokers {
		found = append(found, it.ID)
	}
	return found
}

func (program *Program) createPartitions(command *Command) (any, error) {
	topic := kafka.TopicPartitionsConfig{Name: command.Topic, Count: int32(command.Total)}
	found, err := program.admin(command).CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{topic},
	})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(nil, found.Errors)
}

// --- configurations

func (program *Program) describeConfigs(command *Command) (any, error) {
	resource := kafka.DescribeConfigRequestResource{
		ResourceType: kindOf(command), ResourceName: command.Name,
	}
	found, err := program.admin(command).DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{resource},
	})
	if err != nil {
		return nil, err
	}
	configs := map[string]told{}
	for _, resource := range found.Resources {
		if resource.Error != nil {
			return nil, resource.Error
		}
		for _, it := range resource.ConfigEntries {
			isDefault := it.ConfigSource == defaultSource
			configs[it.ConfigName] = told{"value": it.ConfigValue, "is_default": isDefault}
		}
	}
	return told{"configs": configs}, nil
}

// defaultSource is the protocol's; the library hands its number out.
const defaultSource = 5

func (program *Program) alterConfigs(command *Command) (any, error) {
	var changes []kafka.IncrementalAlterConfigsRequestConfig
	for key, value := range command.Set {
		changes = append(changes, kafka.IncrementalAlterConfigsRequestConfig{
			Name: key, Value: value, ConfigOperation: kafka.ConfigOperationSet,
		})
	}
	for _, key := range command.Unset {
		changes = append(changes, kafka.IncrementalAlterConfigsRequestConfig{
			Name: key, ConfigOperation: kafka.ConfigOperationDelete,
		})
	}
	resource := kafka.IncrementalAlterConfigsRequestResource{
		ResourceType: kindOf(command), ResourceName: command.Name, Configs: changes,
	}
	found, err := program.admin(command).IncrementalAlterConfigs(
		ctx, &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
		},
	)
	if err != nil {
		return nil, err
	}
	for _, it := range found.Resources {
		err = first(err, it.Error)
	}
	return nil, err
}

func (program *Program) replaceConfigs(command *Command) (any, error) {
	var changes []kafka.AlterConfigRequestConfig
	for key, value := range command.Set {
		changes = append(changes, kafka.AlterConfigRequestConfig{Name: key, Value: value})
	}
	resource := kafka.AlterConfigRequestResource{
		ResourceType: kindOf(command), ResourceName: command.Name, Configs: changes,
	}
	found, err := program.admin(command).AlterConfigs(ctx, &kafka.AlterConfigsRequest{
		Resources: []kafka.AlterConfigRequestResource{resource},
	})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(nil, found.Errors)
}

func kindOf(command *Command) kafka.ResourceType {
	if command.Kind == "broker" {
		return kafka.ResourceTypeBroker
	}
	return kafka.ResourceTypeTopic
}

// --- records and the cluster

func (program *Program) listOffsets(command *Command) (any, error) {
	offset, err := offsetListed(program.admin(command).Client, command.place(), command.At)
	if err != nil {
		return nil, err
	}
	return told{"offset": offsetTold(command.place(), offset, nil)["offset"]}, nil
}

func (program *Program) describeCluster(command *Command) (any, error) {
	found, err := program.admin(command).Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	var brokers []told
	for _, it := range found.Brokers {
		brokers = append(brokers, told{"id": it.ID, "host": it.Host, "port": it.Port})
	}
	return told{
		"cluster_id": found.ClusterID, "controller": found.Controller.ID, "brokers": brokers,
	}, nil
}

// --- groups

func (program *Program) listGroups(command *Command) (any, error) {
	found, err := program.admin(command).ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	groups := []string{}
	for _, it := range found.Groups {
		groups = append(groups, it.GroupID)
	}
	return told{"groups": groups}, found.Error
}

func (program *Program) describeGroup(command *Command) (any, error) {
	found, err := program.admin(command).DescribeGroups(ctx, &kafka.DescribeGroupsRequest{
		GroupIDs: []string{command.Group},
	})
	if err != nil {
		return nil, err
	}
	group := found.Groups[0]
	members := []told{}
	for _, it := range group.Members {
		var places []Place
		for _, topic := range it.MemberAssignments.Topics {
			for _, partition := range topic.Partitions {
				places = append(places, Place{topic.Topic, int32(partition)})
			}
		}
		members = append(members, told{
			"client_id": it.ClientID, "instance_id": nil, "assignment": placesTold(places),
		})
	}
	return told{"state": group.GroupState, "members": members}, group.Error
}

func (program *Program) groupOffsets(command *Command) (any, error) {
	found, err := program.admin(command).OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: command.Group,
	})
	if err := first(err, errorIn(found)); err != nil {
		return nil, err
	}
	offsets := []told{}
	for topic, partitions := range found.Topics {
		for _, it := range partitions {
			if it.Error != nil {
				return nil, it.Error
			}
			place := Place{topic, int32(it.Partition)}
			offsets = append(offsets, offsetTold(place, it.CommittedOffset, &it.Metadata))
		}
	}
	return told{"offsets": offsets}, nil
}

func (program *Program) alterGroupOffsets(command *Command) (any, error) {
	nobody := &kafka.Generation{ID: -1}
	return nil, commitBy(program.admin(command).Client, command.Group, nobody, command.Offsets)
}

func (program *Program) deleteGroupOffsets(command *Command) (any, error) {
	topics := map[string][]int{}
	for _, it := range command.Partitions {
		topics[it.Topic] = append(topics[it.Topic], int(it.Partition))
	}
	found, err := program.admin(command).OffsetDelete(ctx, &kafka.OffsetDeleteRequest{
		GroupID: command.Group, Topics: topics,
	})
	if err != nil {
		return nil, err
	}
	err = found.Error
	for _, partitions := range found.Topics {
		for _, partition := range partitions {
			err = first(err, partition.Error)
		}
	}
	return nil, err
}

func (program *Program) deleteGroup(command *Command) (any, error) {
	found, err := program.admin(command).DeleteGroups(ctx, &kafka.DeleteGroupsRequest{
		GroupIDs: []string{command.Group},
	})
	if err != nil {
		return nil, err
	}
	return nil, firstOf(nil, found.Errors)
}
