// franz-go as a client of the suite.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var ctx = context.Background()

func main() {
	program := &Program{client: "franz-go", module: "github.com/twmb/franz-go", codeOf: codeOf}
	program.commands = commandsOf(program)
	run(program)
}

// codeOf is the code that the library gives with an error.
func codeOf(err error) any {
	var refusal *kerr.Error
	switch {
	case errors.As(err, &refusal):
		return refusal.Code
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, context.DeadlineExceeded):
		return "TIMED_OUT"
	}
	return "CLIENT"
}

// common is what clients of every kind are opened with.
func common(command *Command) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(command.Bootstrap, ",")...),
		kgo.ClientID(command.ClientID),
	}
}

func noSuchKind(kind string) error { return fmt.Errorf("no kind of resource is called %s", kind) }
