// A line on standard input makes a new kfake cluster of one broker with the topic of ten partitions,
// in place of the one before; a line on standard output tells its address and how long that took.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	var cluster *kfake.Cluster
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		began := time.Now()
		if cluster != nil {
			cluster.Close()
		}
		cluster = kfake.MustCluster(kfake.NumBrokers(1), kfake.SeedTopics(10, "trucks"))
		fmt.Println(cluster.ListenAddrs()[0], time.Since(began).Nanoseconds())
	}
	if cluster != nil {
		cluster.Close()
	}
}
