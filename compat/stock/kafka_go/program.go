// kafka-go as a client of the suite.

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

const callTimeout = 15 * time.Second

var ctx = context.Background()

func main() {
	program := &Program{client: "kafka-go", module: "github.com/segmentio/kafka-go", codeOf: codeOf}
	program.commands = commandsOf(program)
	run(program)
}

// codeOf is the code that the library gives with an error.
func codeOf(err error) any {
	var refusal kafka.Error
	switch {
	case errors.As(err, &refusal):
		return int(refusal)
	case errors.Is(err, context.DeadlineExceeded):
		return "TIMED_OUT"
	}
	return "CLIENT"
}

func addresses(command *Command) []string { return strings.Split(command.Bootstrap, ",") }

func transport(command *Command) *kafka.Transport {
	return &kafka.Transport{ClientID: command.ClientID}
}

// client sends single requests, to admin and to look things up.
func client(command *Command) *kafka.Client {
	it := &kafka.Client{
		Addr: kafka.TCP(addresses(command)...), Transport: transport(command), Timeout: callTimeout,
	}
	if command.RequestTimeoutMs > 0 {
		it.Timeout = ms(command.RequestTimeoutMs)
	}
	return it
}

func closeIdle(it *kafka.Client) { it.Transport.(*kafka.Transport).CloseIdleConnections() }

func firstOf[Key comparable](err error, found map[Key]error) error {
	for _, its := range found {
		err = first(err, its)
	}
	return err
}
