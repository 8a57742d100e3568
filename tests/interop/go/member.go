package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// member is one of a group of the new protocol (KIP-848): it says what it has and what it reads, as tests/integration/group_member.py does, until SIGTERM.
func member(broker, topic, group string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var mutex sync.Mutex
	has := map[int32]bool{}
	change := func(given bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			mutex.Lock()
			defer mutex.Unlock()
			for _, p := range parts[topic] {
				if given {
					has[p] = true
				} else {
					delete(has, p)
				}
			}
			var told []string
			for p := range has {
				told = append(told, fmt.Sprint(p))
			}
			slices.Sort(told)
			fmt.Println("has", strings.Join(told, ","))
		}
	}
	consumer := client(broker, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()), kgo.AutoCommitInterval(200*time.Millisecond),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		for _, problem := range fetches.Errors() {
			if ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, problem.Topic, problem.Partition, problem.Err)
			}
		}
		fetches.EachRecord(func(record *kgo.Record) { fmt.Println("read", record.Topic, record.Partition, record.Offset) })
	}
	consumer.CloseAllowingRebalance()
}
