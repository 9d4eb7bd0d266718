// Consumers of sarama.

package main

import (
	"context"
	"errors"
	"log"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	recordsMax   = 500
	errorsKept   = 100
	offsetAbsent = -1
)

// consumer reads partitions that it was told to, or those that its group gives it. What comes is
// handed over while somebody polls, and at no other time.
type consumer struct {
	sarama.Client
	options   *Command
	positions Positions
	inbox     chan *sarama.ConsumerMessage
	failures  chan error

	single   sarama.Consumer
	assigned map[Place]*taken

	group   sarama.ConsumerGroup
	leave   context.CancelFunc
	left    chan struct{}
	lock    sync.Mutex
	session sarama.ConsumerGroupSession // none while the group shares out anew
}

// taken is a partition that is read by hand, until it is given up.
type taken struct {
	sarama.PartitionConsumer
	givenUp chan struct{}
}

func (program *Program) openConsumer(command *Command) (any, error) {
	client, err := sarama.NewClient(addresses(command), consumerConfig(command))
	if err != nil {
		return nil, err
	}
	program.opened[command.On] = &consumer{
		Client:    client,
		options:   command,
		positions: Positions{},
		inbox:     make(chan *sarama.ConsumerMessage),
		failures:  make(chan error, errorsKept),
		assigned:  map[Place]*taken{},
	}
	return nil, nil
}

func consumerConfig(command *Command) *sarama.Config {
	config := common(command)
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if command.Reset == "latest" {
		config.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	config.Consumer.IsolationLevel = isolation(command.Isolation)
	config.Consumer.Group.InstanceId = command.InstanceID
	if command.SessionTimeoutMs > 0 {
		config.Consumer.Group.Session.Timeout = ms(command.SessionTimeoutMs)
	}
	if command.HeartbeatIntervalMs > 0 {
		config.Consumer.Group.Heartbeat.Interval = ms(command.HeartbeatIntervalMs)
	}
	if command.FetchBytesMin > 0 {
		config.Consumer.Fetch.Min = command.FetchBytesMin
	}
	if command.FetchWaitMsMax > 0 {
		config.Consumer.MaxWaitTime = ms(command.FetchWaitMsMax)
	}
	if command.PartitionBytesMax > 0 {
		config.Consumer.Fetch.Default = command.PartitionBytesMax
	}
	if strategy := strategyCalled(command.Assignor); strategy != nil {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	}
	return config
}

func strategyCalled(name string) sarama.BalanceStrategy {
	switch name {
	case "range":
		return sarama.NewBalanceStrategyRange()
	case "roundrobin":
		return sarama.NewBalanceStrategyRoundRobin()
	case "sticky":
		return sarama.NewBalanceStrategySticky()
	case "cooperative-sticky":
		return cooperativeSticky()
	}
	return nil
}

func (it *consumer) shut() error {
	err := it.stop()
	return first(err, it.Client.Close())
}

func (it *consumer) letGo() {
	if err := it.shut(); err != nil {
		log.Print(err)
	}
}

// stop ends reading, whichever kind it is.
func (it *consumer) stop() error {
	var err error
	if it.group != nil {
		it.leave()
		err = it.group.Close()
		<-it.left
		it.group = nil
	}
	for place := range it.assigned {
		err = first(err, it.giveUp(place))
	}
	return err
}

// --- members of a group

func (program *Program) subscribe(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	group, err := sarama.NewConsumerGroupFromClient(it.options.Group, it.Client)
	if err != nil {
		return nil, err
	}
	var within context.Context
	within, it.leave = context.WithCancel(context.Background())
	it.group, it.left = group, make(chan struct{})
	go it.keep(group.Errors())
	go it.takePart(within, group, names(command.Topics))
	return nil, nil
}

// takePart joins again whenever a session has ended, as the library wants it done.
func (it *consumer) takePart(within context.Context, group sarama.ConsumerGroup, topics []string) {
	defer close(it.left)
	for within.Err() == nil {
		err := group.Consume(within, topics, it)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if err != nil {
			it.fail(err)
			time.Sleep(backoff)
		}
	}
}

// keep has the library's errors told by the polls to come.
func (it *consumer) keep(failures <-chan error) {
	for err := range failures {
		it.fail(err)
	}
}

func (it *consumer) fail(err error) {
	select {
	case it.failures <- err:
	default:
		log.Print(err)
	}
}

func (it *consumer) Setup(session sarama.ConsumerGroupSession) error {
	it.inSession(session)
	return nil
}

func (it *consumer) Cleanup(sarama.ConsumerGroupSession) error {
	it.inSession(nil)
	return nil
}

func (it *consumer) inSession(session sarama.ConsumerGroupSession) {
	it.lock.Lock()
	defer it.lock.Unlock()
	it.session = session
}

func (it *consumer) currentSession() sarama.ConsumerGroupSession {
	it.lock.Lock()
	defer it.lock.Unlock()
	return it.session
}

func (it *consumer) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			select {
			case it.inbox <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// --- partitions by hand

func (program *Program) assign(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	if err := it.stop(); err != nil {
		return nil, err
	}
	var err error
	if it.single, err = sarama.NewConsumerFromClient(it.Client); err != nil {
		return nil, err
	}
	for _, position := range command.Partitions {
		offset := timeOf(position.Offset)
		if position.Offset.Word == "committed" {
			if offset, err = it.committedOrInitial(position.Place); err != nil {
				return nil, err
			}
		}
		it.take(position.Place, offset)
	}
	return nil, nil
}

func (it *consumer) committedOrInitial(place Place) (int64, error) {
	offset, _, err := it.offsetCommitted(place)
	if offset < 0 {
		offset = it.options.initial()
	}
	return offset, err
}

func (it *Command) initial() int64 {
	if it.Reset == "latest" {
		return sarama.OffsetNewest
	}
	return sarama.OffsetOldest
}

// take reads a partition; an error is one of reading, and told by the next poll.
func (it *consumer) take(place Place, offset int64) {
	reading, err := it.single.ConsumePartition(place.Topic, place.Partition, offset)
	if err != nil {
		it.fail(err)
		return
	}
	taken := &taken{reading, make(chan struct{})}
	it.assigned[place] = taken
	go it.keepOf(reading)
	go func() {
		for message := range reading.Messages() {
			select {
			case it.inbox <- message:
			case <-taken.givenUp:
				return
			}
		}
	}()
}

func (it *consumer) keepOf(reading sarama.PartitionConsumer) {
	for err := range reading.Errors() {
		it.fail(err)
	}
}

// giveUp reads a partition no longer; what came of it since the last poll is dropped.
func (it *consumer) giveUp(place Place) error {
	taken, is := it.assigned[place]
	if !is {
		return nil
	}
	delete(it.assigned, place)
	close(taken.givenUp)
	return taken.Close()
}

func (program *Program) seek(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	place := command.place()
	if err := it.giveUp(place); err != nil {
		return nil, err
	}
	delete(it.positions, place)
	it.take(place, timeOf(command.Offset))
	return nil, nil
}

// --- reading

func (program *Program) poll(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	records := []Record{}
	wait := time.After(ms(command.TimeoutMs))
	select {
	case message := <-it.inbox:
		records = append(records, recordTold(message))
	case err := <-it.failures:
		return nil, err
	case <-wait:
	}
	records = it.withWhatIsThere(records)
	it.positions.passBy(records)
	return told{"records": records, "assignment": placesTold(it.owned())}, nil
}

// withWhatIsThere adds what comes without waiting.
func (it *consumer) withWhatIsThere(records []Record) []Record {
	most := recordsMax
	if it.options.RecordsMax > 0 {
		most = it.options.RecordsMax
	}
	for len(records) > 0 && len(records) < most {
		select {
		case message := <-it.inbox:
			records = append(records, recordTold(message))
		case <-time.After(time.Millisecond):
			return records
		}
	}
	return records
}

func (it *consumer) owned() []Place {
	var places []Place
	for place := range it.assigned {
		places = append(places, place)
	}
	if session := it.currentSession(); session != nil {
		for topic, partitions := range session.Claims() {
			for _, partition := range partitions {
				places = append(places, Place{topic, partition})
			}
		}
	}
	return places
}

func recordTold(message *sarama.ConsumerMessage) Record {
	timestampMs := message.Timestamp.UnixMilli()
	headers := []Header{}
	for _, it := range message.Headers {
		headers = append(headers, Header{string(it.Key), it.Value})
	}
	return Record{
		Topic: message.Topic, Partition: &message.Partition, Offset: message.Offset,
		TimestampMs: &timestampMs, Key: message.Key, Value: message.Value, Headers: headers,
	}
}

func (program *Program) pause(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	if it.group != nil {
		it.group.Pause(byTopic(command.Partitions))
	}
	for _, position := range command.Partitions {
		if reading, is := it.assigned[position.Place]; is {
			reading.Pause()
		}
	}
	return nil, nil
}

func (program *Program) resume(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	if it.group != nil {
		it.group.Resume(byTopic(command.Partitions))
	}
	for _, position := range command.Partitions {
		if reading, is := it.assigned[position.Place]; is {
			reading.Resume()
		}
	}
	return nil, nil
}

func byTopic(positions []Position) map[string][]int32 {
	found := map[string][]int32{}
	for _, it := range positions {
		found[it.Topic] = append(found[it.Topic], it.Partition)
	}
	return found
}

// --- offsets

// commit is the session's, whose errors come by the way of all others; without a session, that of
// whoever manages offsets by hand.
func (program *Program) commit(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offsets := it.positions.toCommit(command.Offsets)
	session := it.currentSession()
	if session == nil {
		return nil, it.commitByHand(offsets)
	}
	for _, position := range offsets {
		offset := position.Offset.Number
		session.ResetOffset(position.Topic, position.Partition, offset, position.Metadata)
		session.MarkOffset(position.Topic, position.Partition, offset, position.Metadata)
	}
	session.Commit()
	select {
	case err := <-it.failures:
		return nil, err
	case <-time.After(10 * time.Millisecond):
		return nil, nil
	}
}

func (it *consumer) commitByHand(offsets []Position) error {
	keeper, err := sarama.NewOffsetManagerFromClient(it.options.Group, it.Client)
	if err != nil {
		return err
	}
	var partitions []sarama.PartitionOffsetManager
	for _, position := range offsets {
		partition, err := keeper.ManagePartition(position.Topic, position.Partition)
		if err != nil {
			return err
		}
		partition.ResetOffset(position.Offset.Number, position.Metadata)
		partition.MarkOffset(position.Offset.Number, position.Metadata)
		partitions = append(partitions, partition)
	}
	keeper.Commit()
	failed := keeper.Close()
	for _, partition := range partitions {
		for err := range partition.Errors() {
			failed = first(failed, err)
		}
	}
	return failed
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
	admin, err := sarama.NewClusterAdminFromClient(it.Client)
	if err != nil {
		return offsetAbsent, "", err
	}
	found, err := admin.ListConsumerGroupOffsets(
		it.options.Group, map[string][]int32{place.Topic: {place.Partition}},
	)
	if err != nil {
		return offsetAbsent, "", err
	}
	block := found.GetBlock(place.Topic, place.Partition)
	if block == nil {
		return offsetAbsent, "", nil
	}
	return block.Offset, block.Metadata, refusal(block.Err)
}

func (program *Program) offsetsAt(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offsets := []told{}
	for _, position := range command.Partitions {
		offset, err := it.GetOffset(position.Topic, position.Partition, timeOf(command.At))
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offsetTold(position.Place, offset, nil))
	}
	return told{"offsets": offsets}, nil
}
