// Command interop drives a broker with franz-go: produce with each codec, read back by partition and in a group, transactions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 500

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(broker string, more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(broker), kgo.AllowAutoTopicCreation()}, more...)...)
	check(err)
	return made
}

// read polls until want records came, and fails when the context ends first.
func read(ctx context.Context, consumer *kgo.Client, want int) map[string]int {
	seen := map[string]int{}
	for total := 0; total < want; {
		fetches := consumer.PollFetches(ctx)
		for _, problem := range fetches.Errors() {
			check(fmt.Errorf("%s/%d: %w", problem.Topic, problem.Partition, problem.Err))
		}
		fetches.EachRecord(func(record *kgo.Record) {
			seen[string(record.Value)]++
			total++
		})
	}
	return seen
}

func expect(seen map[string]int, prefix string, times int) {
	for i := 0; i < count; i++ {
		if got := seen[fmt.Sprintf("%s-%d", prefix, i)]; got != times {
			check(fmt.Errorf("%s-%d came %d times, not %d", prefix, i, got, times))
		}
	}
}

func records(topic, prefix string) []*kgo.Record {
	var made []*kgo.Record
	for i := 0; i < count; i++ {
		made = append(made, &kgo.Record{Topic: topic, Key: []byte(fmt.Sprint(i % 7)), Value: []byte(fmt.Sprintf("%s-%d", prefix, i)),
			Headers: []kgo.RecordHeader{{Key: "number", Value: []byte(fmt.Sprint(i))}}})
	}
	return made
}

func codecs(ctx context.Context, broker, topic string) {
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		producer := client(broker, kgo.ProducerBatchCompression(codec))
		check(producer.ProduceSync(ctx, records(topic+"-"+name, name)...).FirstErr())
		producer.Close()
		consumer := client(broker, kgo.ConsumeTopics(topic+"-"+name))
		expect(read(ctx, consumer, count), name, 1)
		consumer.Close()
	}
}

func group(ctx context.Context, broker, topic string) {
	producer := client(broker)
	check(producer.ProduceSync(ctx, records(topic, "group")...).FirstErr())
	producer.Close()
	first := client(broker, kgo.ConsumerGroup(topic+"-group"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	expect(read(ctx, first, count), "group", 1)
	check(first.CommitUncommittedOffsets(ctx))
	first.Close()
	producer = client(broker)
	check(producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("later")}).FirstErr())
	producer.Close()
	second := client(broker, kgo.ConsumerGroup(topic+"-group"), kgo.ConsumeTopics(topic))
	if seen := read(ctx, second, 1); len(seen) != 1 || seen["later"] != 1 {
		check(fmt.Errorf("after the committed offsets came %v", seen))
	}
	second.Close()
}

func transactions(ctx context.Context, broker, topic string) {
	producer := client(broker, kgo.TransactionalID(topic+"-id"), kgo.DefaultProduceTopic(topic))
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		check(producer.BeginTransaction())
		prefix := map[kgo.TransactionEndTry]string{kgo.TryAbort: "aborted", kgo.TryCommit: "committed"}[end]
		check(producer.ProduceSync(ctx, records(topic, prefix)...).FirstErr())
		check(producer.EndTransaction(ctx, end))
	}
	producer.Close()
	consumer := client(broker, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	seen := read(ctx, consumer, count)
	expect(seen, "committed", 1)
	expect(seen, "aborted", 0)
	consumer.Close()
}

func main() {
	if len(os.Args) == 5 && os.Args[3] == "member" {
		member(os.Args[1], os.Args[2], os.Args[4])
		return
	}
	if len(os.Args) != 4 {
		check(errors.New("usage: interop BROKER TOPIC codecs|group|transactions, or interop BROKER TOPIC member GROUP"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	parts := map[string]func(context.Context, string, string){"codecs": codecs, "group": group, "transactions": transactions}
	part, known := parts[os.Args[3]]
	if !known {
		check(fmt.Errorf("no part %q", os.Args[3]))
	}
	part(ctx, os.Args[1], os.Args[2])
	fmt.Println("ok")
}
