// Consumers of kafka-go.

package main

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	recordsMax   = 500
	bytesMax     = 1_000_000
	failuresKept = 100
	tryAgain     = 300 * time.Millisecond
	offsetAbsent = -1
)

// consumer has a reader for each partition: those that it was told to read, or those of the
// group's generation. What comes is handed over while somebody polls, and at no other time.
type consumer struct {
	*kafka.Client
	options   *Command
	positions Positions
	inbox     chan kafka.Message
	failures  chan error

	lock       sync.Mutex
	reading    map[Place]*reading
	generation *kafka.Generation // none while the group shares out anew

	group *kafka.ConsumerGroup
	left  chan struct{}
}

// reading is a partition that is read, until it is given up.
type reading struct {
	*kafka.Reader
	giveUp context.CancelFunc
	ended  chan struct{}
}

func (program *Program) openConsumer(command *Command) (any, error) {
	program.opened[command.On] = &consumer{
		Client:    client(command),
		options:   command,
		positions: Positions{},
		inbox:     make(chan kafka.Message),
		failures:  make(chan error, failuresKept),
		reading:   map[Place]*reading{},
	}
	return nil, nil
}

func (it *consumer) shut() error {
	err := it.stop()
	closeIdle(it.Client)
	return err
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
		err = it.group.Close()
		<-it.left
		it.group = nil
	}
	for place := range it.all() {
		it.end(place)
	}
	return err
}

func (it *consumer) fail(err error) {
	select {
	case it.failures <- err:
	default:
		log.Print(err)
	}
}

// --- partitions

func (it *consumer) all() map[Place]*reading {
	it.lock.Lock()
	defer it.lock.Unlock()
	found := map[Place]*reading{}
	for place, its := range it.reading {
		found[place] = its
	}
	return found
}

// read reads a partition from an offset on.
func (it *consumer) read(place Place, offset int64) error {
	reader := kafka.NewReader(it.readerConfig(place))
	if err := reader.SetOffset(offset); err != nil {
		return err
	}
	within, giveUp := context.WithCancel(ctx)
	its := &reading{reader, giveUp, make(chan struct{})}
	it.lock.Lock()
	it.reading[place] = its
	it.lock.Unlock()
	go it.handOver(within, its)
	return nil
}

func (it *consumer) handOver(within context.Context, its *reading) {
	defer close(its.ended)
	for within.Err() == nil {
		message, err := its.ReadMessage(within)
		if err != nil {
			if within.Err() == nil && !errors.Is(err, io.EOF) {
				it.fail(err)
				time.Sleep(tryAgain)
			}
			continue
		}
		select {
		case it.inbox <- message:
		case <-within.Done():
		}
	}
}

// end reads a partition no longer. The reader ends with its last request, which may wait long.
func (it *consumer) end(place Place) {
	it.lock.Lock()
	its, is := it.reading[place]
	delete(it.reading, place)
	it.lock.Unlock()
	if !is {
		return
	}
	its.giveUp()
	<-its.ended
	go func() {
		if err := its.Close(); err != nil {
			log.Print(err)
		}
	}()
}

func (it *consumer) readerConfig(place Place) kafka.ReaderConfig {
	config := kafka.ReaderConfig{
		Brokers:               addresses(it.options),
		Dialer:                it.dialer(),
		Topic:                 place.Topic,
		Partition:             int(place.Partition),
		MaxWait:               ms(it.options.FetchWaitMsMax),
		MinBytes:              int(it.options.FetchBytesMin),
		MaxBytes:              int(it.options.PartitionBytesMax),
		OffsetOutOfRangeError: it.options.Reset == "none",
		ErrorLogger:           kafka.LoggerFunc(log.Printf),
	}
	if config.MinBytes > 0 && config.MaxBytes == 0 {
		config.MaxBytes = bytesMax // both or none of the two may be given
	}
	if it.options.Isolation == "read_committed" {
		config.IsolationLevel = kafka.ReadCommitted
	}
	return config
}

func (it *consumer) dialer() *kafka.Dialer {
	return &kafka.Dialer{ClientID: it.options.ClientID, Timeout: callTimeout, DualStack: true}
}

func (it *Command) initial() int64 {
	if it.Reset == "latest" {
		return kafka.LastOffset
	}
	return kafka.FirstOffset
}

func (program *Program) assign(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	if err := it.stop(); err != nil {
		return nil, err
	}
	for _, position := range command.Partitions {
		offset, err := it.startOf(position)
		if err != nil {
			return nil, err
		}
		if err := it.read(position.Place, offset); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (it *consumer) startOf(position Position) (int64, error) {
	switch position.Offset.Word {
	case "beginning":
		return kafka.FirstOffset, nil
	case "end":
		return kafka.LastOffset, nil
	case "committed":
		offset, _, err := it.offsetCommitted(position.Place)
		if offset < 0 {
			offset = it.options.initial()
		}
		return offset, err
	}
	return position.Offset.Number, nil
}

// --- members of a group

func (program *Program) subscribe(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                it.options.Group,
		Brokers:           addresses(it.options),
		Dialer:            it.dialer(),
		Topics:            names(command.Topics),
		GroupBalancers:    groupBalancers(it.options.Assignor),
		SessionTimeout:    ms(it.options.SessionTimeoutMs),
		HeartbeatInterval: ms(it.options.HeartbeatIntervalMs),
		StartOffset:       it.options.initial(),
	})
	if err != nil {
		return nil, err
	}
	it.group, it.left = group, make(chan struct{})
	go it.takePart(group)
	return nil, nil
}

func groupBalancers(name string) []kafka.GroupBalancer {
	switch name {
	case "range":
		return []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}
	case "roundrobin":
		return []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}}
	}
	return nil
}

// takePart reads what each generation of the group gives to it.
func (it *consumer) takePart(group *kafka.ConsumerGroup) {
	defer close(it.left)
	for {
		generation, err := group.Next(ctx)
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil { // which the library's own reader logs, and nothing more
			log.Print(err)
			continue
		}
		it.follow(generation)
	}
}

func (it *consumer) follow(generation *kafka.Generation) {
	var places []Place
	for topic, assigned := range generation.Assignments {
		for _, its := range assigned {
			place := Place{topic, int32(its.ID)}
			places = append(places, place)
			if err := it.read(place, its.Offset); err != nil {
				it.fail(err)
			}
		}
	}
	it.inGeneration(generation)
	generation.Start(func(within context.Context) {
		<-within.Done()
		it.inGeneration(nil)
		for _, place := range places {
			it.end(place)
		}
	})
}

func (it *consumer) inGeneration(generation *kafka.Generation) {
	it.lock.Lock()
	defer it.lock.Unlock()
	it.generation = generation
}

func (it *consumer) currentGeneration() *kafka.Generation {
	it.lock.Lock()
	defer it.lock.Unlock()
	return it.generation
}

// --- reading

func (program *Program) poll(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	records := []Record{}
	select {
	case message := <-it.inbox:
		records = append(records, recordTold(message))
	case err := <-it.failures:
		return nil, err
	case <-time.After(ms(command.TimeoutMs)):
	}
	records = it.withWhatIsThere(records)
	it.positions.passBy(records)
	var owned []Place
	for place := range it.all() {
		owned = append(owned, place)
	}
	return told{"records": records, "assignment": placesTold(owned)}, nil
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

func recordTold(message kafka.Message) Record {
	partition, timestampMs := int32(message.Partition), message.Time.UnixMilli()
	headers := []Header{}
	for _, it := range message.Headers {
		headers = append(headers, Header{it.Key, it.Value})
	}
	return Record{
		Topic: message.Topic, Partition: &partition, Offset: message.Offset,
		TimestampMs: &timestampMs, Key: message.Key, Value: message.Value, Headers: headers,
	}
}

// seek takes a new reader, so that nothing comes which the old one has fetched.
func (program *Program) seek(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offset, err := it.startOf(Position{command.place(), command.Offset, ""})
	if err != nil {
		return nil, err
	}
	it.end(command.place())
	delete(it.positions, command.place())
	return nil, it.read(command.place(), offset)
}

func (program *Program) position(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	its, is := it.all()[command.place()]
	if !is {
		return told{"offset": nil}, nil
	}
	return told{"offset": its.Offset()}, nil
}

// --- offsets

// commit is the generation's, which takes no metadata; whatever has some goes by a request.
func (program *Program) commit(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offsets := it.positions.toCommit(command.Offsets)
	generation := it.currentGeneration()
	if generation == nil {
		return nil, commitBy(it.Client, it.options.Group, &kafka.Generation{ID: -1}, offsets)
	}
	plain := map[string]map[int]int64{}
	for _, position := range offsets {
		if position.Metadata != "" {
			return nil, commitBy(it.Client, it.options.Group, generation, offsets)
		}
		if plain[position.Topic] == nil {
			plain[position.Topic] = map[int]int64{}
		}
		plain[position.Topic][int(position.Partition)] = position.Offset.Number
	}
	return nil, generation.CommitOffsets(plain)
}

func commitBy(
	client *kafka.Client, group string, generation *kafka.Generation, offsets []Position,
) error {
	topics := map[string][]kafka.OffsetCommit{}
	for _, it := range offsets {
		topics[it.Topic] = append(topics[it.Topic], kafka.OffsetCommit{
			Partition: int(it.Partition), Offset: it.Offset.Number, Metadata: it.Metadata,
		})
	}
	response, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: int(generation.ID), MemberID: generation.MemberID, Topics: topics,
	})
	if err != nil {
		return err
	}
	for _, partitions := range response.Topics {
		for _, partition := range partitions {
			err = first(err, partition.Error)
		}
	}
	return err
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
	found, err := it.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: it.options.Group, Topics: map[string][]int{place.Topic: {int(place.Partition)}},
	})
	if err := first(err, errorIn(found)); err != nil {
		return offsetAbsent, "", err
	}
	for _, partition := range found.Topics[place.Topic] {
		return partition.CommittedOffset, partition.Metadata, partition.Error
	}
	return offsetAbsent, "", nil
}

func errorIn(found *kafka.OffsetFetchResponse) error {
	if found == nil {
		return nil
	}
	return found.Error
}

func (program *Program) offsetsAt(command *Command) (any, error) {
	it := program.opened[command.On].(*consumer)
	offsets := []told{}
	for _, position := range command.Partitions {
		offset, err := offsetListed(it.Client, position.Place, command.At)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offsetTold(position.Place, offset, nil))
	}
	return told{"offsets": offsets}, nil
}

func offsetListed(client *kafka.Client, place Place, at At) (int64, error) {
	partition := int(place.Partition)
	asked := kafka.TimeOffsetOf(partition, time.UnixMilli(at.Number))
	switch at.Word {
	case "beginning":
		asked = kafka.FirstOffsetOf(partition)
	case "end":
		asked = kafka.LastOffsetOf(partition)
	}
	response, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{place.Topic: {asked}},
	})
	if err != nil {
		return offsetAbsent, err
	}
	found := response.Topics[place.Topic][0]
	switch at.Word {
	case "beginning":
		return found.FirstOffset, found.Error
	case "end":
		return found.LastOffset, found.Error
	}
	for offset := range found.Offsets {
		return offset, found.Error
	}
	return offsetAbsent, found.Error
}
