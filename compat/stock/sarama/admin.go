// The admin client of sarama.

package main

import (
	"net"
	"strconv"

	"github.com/IBM/sarama"
)

type admin struct {
	clusterAdmin
	client sarama.Client
}

func (it *admin) shut() error { return it.Close() }

func (it *admin) letGo() { it.Close() }

func (program *Program) admin(command *Command) *admin {
	return program.opened[command.On].(*admin)
}

func (program *Program) openAdmin(command *Command) (any, error) {
	client, err := sarama.NewClient(addresses(command), common(command))
	if err != nil {
		return nil, err
	}
	opened, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	program.opened[command.On] = &admin{opened.(clusterAdmin), client}
	return nil, nil
}

// --- topics

func (program *Program) createTopics(command *Command) (any, error) {
	for _, it := range command.Topics {
		detail := &sarama.TopicDetail{
			NumPartitions: it.Partitions, ReplicationFactor: it.Replicas, ConfigEntries: settings(it.Configs),
		}
		err := program.admin(command).CreateTopic(it.Name, detail, command.ValidateOnly)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (program *Program) deleteTopics(command *Command) (any, error) {
	for _, name := range names(command.Topics) {
		if err := program.admin(command).DeleteTopic(name); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (program *Program) listTopics(command *Command) (any, error) {
	found, err := program.admin(command).ListTopics()
	if err != nil {
		return nil, err
	}
	topics := []string{}
	for name := range found {
		topics = append(topics, name)
	}
	return told{"topics": topics}, nil
}

func (program *Program) describeTopics(command *Command) (any, error) {
	found, err := program.admin(command).DescribeTopics(names(command.Topics))
	if err != nil {
		return nil, err
	}
	var topics []told
	for _, topic := range found {
		if topic.Err != sarama.ErrNoError {
			return nil, topic.Err
		}
		var partitions []told
		for _, it := range topic.Partitions {
			partitions = append(partitions, told{
				"partition": it.ID, "leader": it.Leader, "replicas": it.Replicas, "in_sync": it.Isr,
			})
		}
		topics = append(topics, told{"name": topic.Name, "partitions": partitions})
	}
	return told{"topics": topics}, nil
}

func (program *Program) createPartitions(command *Command) (any, error) {
	total := int32(command.Total)
	return nil, program.admin(command).CreatePartitions(command.Topic, total, nil, false)
}

// --- configurations

func (program *Program) describeConfigs(command *Command) (any, error) {
	found, err := program.admin(command).DescribeConfig(
		sarama.ConfigResource{Type: kindOf(command), Name: command.Name},
	)
	if err != nil {
		return nil, err
	}
	configs := map[string]told{}
	for _, it := range found {
		configs[it.Name] = told{"value": it.Value, "is_default": it.Default}
	}
	return told{"configs": configs}, nil
}

func (program *Program) alterConfigs(command *Command) (any, error) {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for key, value := range settings(command.Set) {
		changes[key] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value,
		}
	}
	for _, key := range command.Unset {
		changes[key] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationDelete,
		}
	}
	return nil, program.admin(command).IncrementalAlterConfig(
		kindOf(command), command.Name, changes, false,
	)
}

func (program *Program) replaceConfigs(command *Command) (any, error) {
	return nil, program.admin(command).AlterConfig(
		kindOf(command), command.Name, settings(command.Set), false,
	)
}

func kindOf(command *Command) sarama.ConfigResourceType {
	if command.Kind == "broker" {
		return sarama.BrokerResource
	}
	return sarama.TopicResource
}

func settings(given map[string]string) map[string]*string {
	found := map[string]*string{}
	for key, value := range given {
		found[key] = &value
	}
	return found
}

// --- records

// deleteRecords is told no low watermark, and asks for it.
func (program *Program) deleteRecords(command *Command) (any, error) {
	it := program.admin(command)
	before := map[int32]int64{command.Partition: command.Before}
	if err := it.DeleteRecords(command.Topic, before); err != nil {
		return nil, err
	}
	offset, err := it.client.GetOffset(command.Topic, command.Partition, sarama.OffsetOldest)
	return told{"low_watermark": offset}, err
}

// --- the cluster

func (program *Program) describeCluster(command *Command) (any, error) {
	found, controller, err := program.admin(command).DescribeCluster()
	if err != nil {
		return nil, err
	}
	var brokers []told
	for _, it := range found {
		host, text, err := net.SplitHostPort(it.Addr())
		if err != nil {
			return nil, err
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		brokers = append(brokers, told{"id": it.ID(), "host": host, "port": port})
	}
	return told{"cluster_id": nil, "controller": controller, "brokers": brokers}, nil
}

// --- groups

func (program *Program) listGroups(command *Command) (any, error) {
	found, err := program.admin(command).ListConsumerGroups()
	if err != nil {
		return nil, err
	}
	groups := []string{}
	for name := range found {
		groups = append(groups, name)
	}
	return told{"groups": groups}, nil
}

func (program *Program) describeGroup(command *Command) (any, error) {
	found, err := program.admin(command).DescribeConsumerGroups([]string{command.Group})
	if err != nil {
		return nil, err
	}
	group := found[0]
	if group.Err != sarama.ErrNoError {
		return nil, group.Err
	}
	members := []told{}
	for _, it := range group.Members {
		assignment, err := it.GetMemberAssignment()
		if err != nil {
			return nil, err
		}
		members = append(members, told{
			"client_id": it.ClientId, "instance_id": it.GroupInstanceId, "assignment": placesIn(assignment),
		})
	}
	return told{"state": group.State, "members": members}, nil
}

func placesIn(assignment *sarama.ConsumerGroupMemberAssignment) [][]any {
	var places []Place
	if assignment != nil {
		for topic, partitions := range assignment.Topics {
			for _, partition := range partitions {
				places = append(places, Place{topic, partition})
			}
		}
	}
	return placesTold(places)
}

func (program *Program) groupOffsets(command *Command) (any, error) {
	found, err := program.admin(command).ListConsumerGroupOffsets(command.Group, nil)
	if err != nil {
		return nil, err
	}
	offsets := []told{}
	for topic, blocks := range found.Blocks {
		for partition, it := range blocks {
			if it.Err != sarama.ErrNoError {
				return nil, it.Err
			}
			offsets = append(offsets, offsetTold(Place{topic, partition}, it.Offset, &it.Metadata))
		}
	}
	return told{"offsets": offsets}, nil
}

func (program *Program) deleteGroupOffsets(command *Command) (any, error) {
	for _, it := range command.Partitions {
		err := program.admin(command).DeleteConsumerGroupOffset(command.Group, it.Topic, it.Partition)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (program *Program) deleteGroup(command *Command) (any, error) {
	return nil, program.admin(command).DeleteConsumerGroup(command.Group)
}
