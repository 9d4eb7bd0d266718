// The line protocol of compat/README.md, for programs that are written in Go.

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"time"
)

const resetTimeout = 5 * time.Second

// Program is what answers: the library's name, its module, a method for each command.
type Program struct {
	client   string
	module   string
	commands map[string]func(*Command) (any, error)
	codeOf   func(error) any
	opened   map[string]opened
}

// opened is a producer, a consumer or an admin client, under the name that the suite gave it.
type opened interface {
	// shut closes in good order.
	shut() error
	// letGo closes quickly, whether or not a broker is there.
	letGo()
}

// Refused is an error that a library hands out as a bare code, or the program's own.
type Refused struct {
	code any
	text string
}

func (it *Refused) Error() string { return it.text }

// told is an answer that is an object.
type told map[string]any

// run answers one line after the other until there are no more.
func run(program *Program) {
	program.opened = map[string]opened{}
	lines := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<16))
	answers := bufio.NewWriterSize(os.Stdout, 1<<16)
	os.Stdout = os.Stderr // what a library prints is no answer
	for {
		var command Command
		if err := lines.Decode(&command); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		answer := program.answer(&command)
		answer["id"] = command.ID
		line, err := json.Marshal(answer)
		if err != nil {
			log.Fatal(err)
		}
		answers.Write(append(line, '\n'))
		answers.Flush()
	}
	program.reset()
}

func (program *Program) answer(command *Command) told {
	found, err := program.do(command)
	if err != nil {
		log.Printf("%s: %v", command.Do, err)
		return told{"error": program.errorTold(err)}
	}
	if found == nil {
		found = told{}
	}
	return told{"ok": found}
}

func (program *Program) do(command *Command) (any, error) {
	switch command.Do {
	case "hello":
		return told{"client": program.client, "version": versionOf(program.module)}, nil
	case "reset":
		program.reset()
		return nil, nil
	case "close":
		it := program.opened[command.On]
		delete(program.opened, command.On)
		return nil, it.shut()
	}
	method, known := program.commands[command.Do]
	if !known {
		return nil, &Refused{"UNSUPPORTED", command.Do}
	}
	return method(command)
}

// reset lets everything go, and waits for no more than its time.
func (program *Program) reset() {
	gone := make(chan struct{})
	go func(all map[string]opened) {
		defer close(gone)
		for _, it := range all {
			it.letGo()
		}
	}(program.opened)
	program.opened = map[string]opened{}
	select {
	case <-gone:
	case <-time.After(resetTimeout):
	}
}

func (program *Program) errorTold(err error) told {
	text := fmt.Sprintf("%T: %v", err, err)
	var refused *Refused
	if errors.As(err, &refused) {
		return told{"code": refused.code, "text": text}
	}
	return told{"code": program.codeOf(err), "text": text}
}

// versionOf asks the build which version of a module is in it.
func versionOf(module string) string {
	build, _ := debug.ReadBuildInfo()
	for _, it := range build.Deps {
		if it.Path == module {
			return it.Version[1:]
		}
	}
	return "unknown"
}

// Place is a partition.
type Place struct {
	Topic     string
	Partition int32
}

// Command has the options of all commands; what does not belong to one is empty.
type Command struct {
	ID int    `json:"id"`
	Do string `json:"do"`
	On string `json:"on"`

	Bootstrap        string `json:"bootstrap"`
	ClientID         string `json:"client_id"`
	RequestTimeoutMs int64  `json:"request_timeout_ms"`

	Acks                 string `json:"acks"`
	Compression          string `json:"compression"`
	Idempotent           bool   `json:"idempotent"`
	TransactionalID      string `json:"transactional_id"`
	TransactionTimeoutMs int64  `json:"transaction_timeout_ms"`
	Partitioner          string `json:"partitioner"`
	LingerMs             *int64 `json:"linger_ms"`
	BatchBytesMax        int    `json:"batch_bytes_max"`
	RequestBytesMax      int    `json:"request_bytes_max"`
	DeliveryTimeoutMs    int64  `json:"delivery_timeout_ms"`

	Records  []Record `json:"records"`
	Consumer string   `json:"consumer"`

	Group               string `json:"group"`
	InstanceID          string `json:"instance_id"`
	Protocol            string `json:"protocol"`
	Assignor            string `json:"assignor"`
	Isolation           string `json:"isolation"`
	Reset               string `json:"reset"`
	SessionTimeoutMs    int64  `json:"session_timeout_ms"`
	HeartbeatIntervalMs int64  `json:"heartbeat_interval_ms"`
	FetchBytesMin       int32  `json:"fetch_bytes_min"`
	FetchWaitMsMax      int64  `json:"fetch_wait_ms_max"`
	PartitionBytesMax   int32  `json:"partition_bytes_max"`
	RecordsMax          int    `json:"records_max"`

	Topics     []Topic    `json:"topics"`
	Partitions []Position `json:"partitions"`
	Offsets    []Position `json:"offsets"`
	TimeoutMs  int64      `json:"timeout_ms"`
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	Offset     At         `json:"offset"`
	At         At         `json:"at"`
	Before     int64      `json:"before"`

	ValidateOnly bool              `json:"validate_only"`
	Total        int               `json:"total"`
	Kind         string            `json:"kind"`
	Name         string            `json:"name"`
	Set          map[string]string `json:"set"`
	Unset        []string          `json:"unset"`
}

func (it *Command) place() Place { return Place{it.Topic, it.Partition} }

// Record is one that is to be written, or that was read.
type Record struct {
	Topic       string   `json:"topic"`
	Partition   *int32   `json:"partition"`
	Offset      int64    `json:"offset"`
	TimestampMs *int64   `json:"timestamp_ms"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []Header `json:"headers"`
}

// time is when the producer says that a record came to be; zero if it does not say.
func (it *Record) time() time.Time {
	if it.TimestampMs == nil {
		return time.Time{}
	}
	return time.UnixMilli(*it.TimestampMs)
}

// Header stands in a line as a list of name and value.
type Header struct {
	Name  string
	Value []byte
}

func (it *Header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&it.Name, &it.Value})
}

func (it Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{it.Name, it.Value}) }

// At is an offset or a time, or a word for one; -1 if there is none.
type At struct {
	Number int64
	Word   string
}

func (it *At) UnmarshalJSON(text []byte) error {
	it.Number = -1
	if text[0] == '"' {
		return json.Unmarshal(text, &it.Word)
	}
	return json.Unmarshal(text, &it.Number)
}

// Position is a place, alone (as a list) or with an offset (as an object).
type Position struct {
	Place
	Offset   At
	Metadata string
}

func (it *Position) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &[]any{&it.Topic, &it.Partition})
	}
	type plain Position
	return json.Unmarshal(text, (*plain)(it))
}

// Topic is a name (as a string), or all that is needed to create one (as an object).
type Topic struct {
	Name       string            `json:"name"`
	Partitions int32             `json:"partitions"`
	Replicas   int16             `json:"replicas"`
	Configs    map[string]string `json:"configs"`
}

func (it *Topic) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &it.Name)
	}
	type plain Topic
	return json.Unmarshal(text, (*plain)(it))
}

func names(topics []Topic) []string {
	var found []string
	for _, it := range topics {
		found = append(found, it.Name)
	}
	return found
}

// offsetTold is an offset of a partition; none if it is below zero.
func offsetTold(place Place, offset int64, metadata *string) told {
	answer := told{"topic": place.Topic, "partition": place.Partition, "offset": nil, "metadata": nil}
	if offset >= 0 {
		answer["offset"], answer["metadata"] = offset, metadata
	}
	return answer
}

// placesTold is a list of pairs; never null, which would say that nobody knows.
func placesTold(places []Place) [][]any {
	pairs := [][]any{}
	for _, it := range places {
		pairs = append(pairs, []any{it.Topic, it.Partition})
	}
	return pairs
}

// Positions are behind the last record that polls have handed out, for each partition.
type Positions map[Place]int64

func (positions Positions) passBy(records []Record) {
	for _, it := range records {
		positions[Place{it.Topic, *it.Partition}] = it.Offset + 1
	}
}

// toCommit is what a commit is about.
func (positions Positions) toCommit(given []Position) []Position {
	if given != nil {
		return given
	}
	var found []Position
	for place, offset := range positions {
		found = append(found, Position{Place: place, Offset: At{Number: offset}})
	}
	return found
}

func ms(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// first is the first error of a list.
func first(found ...error) error {
	for _, err := range found {
		if err != nil {
			return err
		}
	}
	return nil
}
