//go:build older

// What older versions of franz-go do not have; the manifest lets nobody ask for it.

package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var errTooOld = errors.New("came with a later version")

func serverSide() []kgo.Opt { return nil }

func maxTimestampOffsets(*kadm.Client, string) (kadm.ListedOffsets, error) {
	return nil, errTooOld
}

func (program *Program) describeConsumerGroup(*Command) (any, error) { return nil, errTooOld }
