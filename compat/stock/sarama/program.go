// sarama as a client of the suite.

package main

import (
	"errors"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const backoff = 200 * time.Millisecond

func main() {
	program := &Program{client: "sarama", module: "github.com/IBM/sarama", codeOf: codeOf}
	program.commands = commandsOf(program)
	run(program)
}

// codeOf is the code that the library gives with an error; below zero are codes of its own.
func codeOf(err error) any {
	var refusal sarama.KError
	if errors.As(err, &refusal) && refusal >= 0 {
		return int16(refusal)
	}
	return "CLIENT"
}

// refusal is no error where the code says so.
func refusal(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

// common is what clients of every kind are opened with: the newest protocol that the library knows.
func common(command *Command) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = command.ClientID
	config.Version = sarama.MaxVersion
	if command.RequestTimeoutMs > 0 {
		config.Net.ReadTimeout = ms(command.RequestTimeoutMs)
		config.Net.WriteTimeout = ms(command.RequestTimeoutMs)
		config.Producer.Timeout = ms(command.RequestTimeoutMs)
		config.Admin.Timeout = ms(command.RequestTimeoutMs)
	}
	return config
}

func addresses(command *Command) []string { return strings.Split(command.Bootstrap, ",") }

func isolation(name string) sarama.IsolationLevel {
	if name == "read_committed" {
		return sarama.ReadCommitted
	}
	return sarama.ReadUncommitted
}

// timeOf is what the library takes for an offset that is asked for by a word or a time.
func timeOf(at At) int64 {
	switch at.Word {
	case "beginning":
		return sarama.OffsetOldest
	case "end":
		return sarama.OffsetNewest
	}
	return at.Number
}
