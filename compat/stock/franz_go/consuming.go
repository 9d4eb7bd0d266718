// Consumers of franz-go.

package main

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumer begins as a client that asks for offsets alone; subscribe and assign put one in its
// place that reads, since the library wants to know what is read when it opens a client.
type consumer struct {
	*kgo.Client
	options   *Command
	positions Positions
	waiting   []Record // came with an error, which was told first

	lock  sync.Mutex
	owned map[Place]bool
}

func (it *consumer) shut() error {
	it.Close()
	return nil
}

func (it *consumer) letGo() { it.Close() }

func (it *consumer) admin() *kadm.Client { return kadm.NewClient(it.Client) }

// reopen takes another client, with more options.
func (it *consumer) reopen(more ...kgo.Opt) error {
	if it.Client != nil {
		it.Close()
	}
	it.owned, it.positions, it.waiting = map[Place]bool{}, Positions{}, nil
	var err error
	it.Client, err = kgo.NewClient(append(consumerOptions(it.options), more...)...)
	return err
}

func (program *Program) openConsumer(command *Command) (any, error) {
	it := &consumer{options: command}
	program.opened[command.On] = it
	return nil, it.reopen()
}

func consumerOptions(command *Command) []kgo.Opt {
	options := append(common(command), kgo.ConsumeResetOffset(resetOffset(command.Reset)))
	if command.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if command.FetchBytesMin > 0 {
		options = append(options, kgo.FetchMinBytes(command.FetchBytesMin))
	}
	if command.FetchWaitMsMax > 0 {
		options = append(options, kgo.FetchMaxWait(ms(command.FetchWaitMsMax)))
	}
	if command.PartitionBytesMax > 0 {
		options = append(options, kgo.FetchMaxPartitionBytes(command.PartitionBytesMax))
	}
	return options
}

func resetOffset(name string) kgo.Offset {
	switch name {
	case "latest":
		return kgo.NewOffset().AtEnd()
	case "none":
		return kgo.NoResetOffset()
	}
	return kgo.NewOffset().AtStart()
}

func (program *Program) subscribe(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	return nil, it.reopen(append(
		groupOptions(it.options),
		kgo.ConsumeTopics(names(command.Topics)...),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(it.took),
		kgo.OnPartitionsRevoked(it.gaveUp),
		kgo.OnPartitionsLost(it.gaveUp),
	)...)
}

func groupOptions(command *Command) []kgo.Opt {
	options := []kgo.Opt{kgo.ConsumerGroup(command.Group)}
	if command.InstanceID != "" {
		options = append(options, kgo.InstanceID(command.InstanceID))
	}
	if command.SessionTimeoutMs > 0 {
		options = append(options, kgo.SessionTimeout(ms(command.SessionTimeoutMs)))
	}
	if command.HeartbeatIntervalMs > 0 {
		options = append(options, kgo.HeartbeatInterval(ms(command.HeartbeatIntervalMs)))
	}
	return append(options, balancing(command)...)
}

// balancing chooses who shares partitions out; the broker's "uniform" goes by the name of sticky.
func balancing(command *Command) []kgo.Opt {
	balancers := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
		"uniform":            kgo.StickyBalancer(),
	}
	var options []kgo.Opt
	chosen, known := balancers[command.Assignor]
	if command.Protocol == "consumer" {
		options = append(options, serverSide()...)
		if !known {
			chosen, known = kgo.StickyBalancer(), true
		}
	}
	if known {
		options = append(options, kgo.Balancers(chosen))
	}
	return options
}

func (it *consumer) took(_ context.Context, _ *kgo.Client, places map[string][]int32) {
	it.own(places, true)
}

func (it *consumer) gaveUp(_ context.Context, _ *kgo.Client, places map[string][]int32) {
	it.own(places, false)
}

func (it *consumer) own(places map[string][]int32, owned bool) {
	it.lock.Lock()
	defer it.lock.Unlock()
	for topic, partitions := range places {
		for _, partition := range partitions {
			if owned {
				it.owned[Place{topic, partition}] = true
			} else {
				delete(it.owned, Place{topic, partition})
			}
		}
	}
}

func (it *consumer) assignment() []Place {
	it.lock.Lock()
	defer it.lock.Unlock()
	places := []Place{}
	for place := range it.owned {
		places = append(places, place)
	}
	return places
}

func (program *Program) assign(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	wanted := map[string]map[int32]kgo.Offset{}
	for _, position := range command.Partitions {
		offset, err := it.startOf(position)
		if err != nil {
			return nil, err
		}
		if wanted[position.Topic] == nil {
			wanted[position.Topic] = map[int32]kgo.Offset{}
		}
		wanted[position.Topic][position.Partition] = offset
	}
	if err := it.reopen(kgo.ConsumePartitions(wanted)); err != nil {
		return nil, err
	}
	for _, position := range command.Partitions {
		it.owned[position.Place] = true
	}
	return nil, nil
}

func (it *consumer) startOf(position Position) (kgo.Offset, error) {
	start := kgo.NewOffset()
	switch position.Offset.Word {
	case "beginning":
		return start.AtStart(), nil
	case "end":
		return start.AtEnd(), nil
	case "committed":
		offset, _, err := it.offsetCommitted(position.Place)
		if err != nil || offset < 0 {
			return resetOffset(it.options.Reset), err
		}
		return start.At(offset), nil
	}
	return start.At(position.Offset.Number), nil
}

func (program *Program) poll(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	records := it.waiting
	it.waiting = nil
	if len(records) == 0 {
		var err error
		if records, err = it.fetched(command.TimeoutMs); err != nil {
			it.waiting = records
			return nil, err
		}
	}
	it.positions.passBy(records)
	return told{"records": records, "assignment": placesTold(it.assignment())}, nil
}

func (it *consumer) fetched(timeoutMs int64) ([]Record, error) {
	within, cancel := context.WithTimeout(ctx, ms(timeoutMs))
	defer cancel()
	fetches := it.PollRecords(within, it.options.RecordsMax)
	records := []Record{}
	fetches.EachRecord(func(record *kgo.Record) { records = append(records, recordTold(record)) })
	for _, found := range fetches.Errors() {
		if !errors.Is(found.Err, context.DeadlineExceeded) {
			return records, found.Err
		}
	}
	return records, nil
}

func recordTold(record *kgo.Record) Record {
	timestampMs := record.Timestamp.UnixMilli()
	headers := []Header{}
	for _, it := range record.Headers {
		headers = append(headers, Header{it.Key, it.Value})
	}
	return Record{
		Topic: record.Topic, Partition: &record.Partition, Offset: record.Offset,
		TimestampMs: &timestampMs, Key: record.Key, Value: record.Value, Headers: headers,
	}
}

func (program *Program) seek(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offset := command.Offset.Number
	if command.Offset.Word != "" {
		found, err := offsetsListed(it.admin(), it.options.Isolation, command.Topic, command.Offset)
		if err != nil {
			return nil, err
		}
		listed, _ := found.Lookup(command.Topic, command.Partition)
		offset = listed.Offset
	}
	it.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		command.Topic: {command.Partition: {Epoch: -1, Offset: offset}},
	})
	it.waiting = nil
	delete(it.positions, command.place())
	return nil, nil
}

func (program *Program) pause(command *Command) (any, error) {
	program.opened[command.On].(*consumer).PauseFetchPartitions(byTopic(command.Partitions))
	return nil, nil
}

func (program *Program) resume(command *Command) (any, error) {
	program.opened[command.On].(*consumer).ResumeFetchPartitions(byTopic(command.Partitions))
	return nil, nil
}

func byTopic(positions []Position) map[string][]int32 {
	found := map[string][]int32{}
	for _, it := range positions {
		found[it.Topic] = append(found[it.Topic], it.Partition)
	}
	return found
}

// commit is the member's own; who took partitions by hand has only the admin client for it.
func (program *Program) commit(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offsets := it.positions.toCommit(command.Offsets)
	if member, _ := it.GroupMetadata(); member == "" {
		return nil, it.admin().CommitAllOffsets(ctx, it.options.Group, adminOffsets(offsets))
	}
	return nil, it.commitAsMember(offsets)
}

func (it *consumer) commitAsMember(offsets []Position) error {
	wanted := map[string]map[int32]kgo.EpochOffset{}
	notes := map[Place]string{}
	for _, position := range offsets {
		if wanted[position.Topic] == nil {
			wanted[position.Topic] = map[int32]kgo.EpochOffset{}
		}
		wanted[position.Topic][position.Partition] = kgo.EpochOffset{
			Epoch: -1, Offset: position.Offset.Number,
		}
		notes[position.Place] = position.Metadata
	}
	noted := kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		addNotes(request, notes)
		return nil
	})
	var failed error
	it.CommitOffsetsSync(noted, wanted, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		failed = first(err, errorIn(response))
	})
	return failed
}

func addNotes(request *kmsg.OffsetCommitRequest, notes map[Place]string) {
	for _, topic := range request.Topics {
		for number := range topic.Partitions {
			partition := &topic.Partitions[number]
			note := notes[Place{topic.Topic, partition.Partition}]
			partition.Metadata = &note
		}
	}
}

func errorIn(response *kmsg.OffsetCommitResponse) error {
	if response == nil {
		return nil
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

func (program *Program) committed(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offsets := []told{}
	for _, position := range command.Partitions {
		offset, metadata, err := it.offsetCommitted(position.Place)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offsetTold(position.Place, offset, &metadata))
	}
	return told{"offsets": offsets}, nil
}

func (it *consumer) offsetCommitted(place Place) (int64, string, error) {
	found, err := it.admin().FetchOffsets(ctx, it.options.Group)
	if err != nil {
		return undecided, "", err
	}
	offset, known := found.Lookup(place.Topic, place.Partition)
	if !known {
		return undecided, "", nil
	}
	return offset.At, offset.Metadata, offset.Err
}

func (program *Program) offsetsAt(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offsets := []told{}
	for _, position := range command.Partitions {
		found, err := offsetsListed(it.admin(), it.options.Isolation, position.Topic, command.At)
		if err != nil {
			return nil, err
		}
		offset, err := offsetIn(found, position.Place, command.At)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offsetTold(position.Place, offset, nil))
	}
	return told{"offsets": offsets}, nil
}
